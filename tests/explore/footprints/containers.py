"""Containers that note how they are used: dicts and sets by key, lists and deques as a whole."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from tests.explore.footprints.accesses import (
    GROW,
    NOTHING,
    READ,
    SIZE,
    WHOLE,
    WRITE,
    Named,
    note,
    note_made,
)

T = TypeVar("T", bound=type)


def _noting(name: str, base: type, key: str, how: int) -> Callable[..., Any]:
    function = getattr(base, name)

    def method(self: Any, *given: Any, **named: Any) -> Any:
        note(self, key, how)
        return tracked(function(self, *given, **named), self.made)

    return method


def _truth(self: Any) -> bool:
    """Whether a container has elements: a look at the whole."""
    note(self, WHOLE, READ)
    return any(True for _ in self)


def _recording(base: type, looks: Iterable[str], changes: Iterable[str] = ()) -> Callable[[T], T]:
    """Return a decorator that adds the methods which look at, or change, the whole container."""

    def complete(made: T) -> T:
        for name in looks:
            setattr(made, name, _noting(name, base, WHOLE, READ))
        for name in changes:
            setattr(made, name, _noting(name, base, WHOLE, WRITE))
        setattr(made, "__bool__", _truth)  # noqa: B010 - a class has it as a method only
        return made

    return complete


_SEQUENCE_LOOKS = (
    "__iter__", "__len__", "__getitem__", "__contains__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__",
    "__ge__", "__add__", "__mul__", "__reversed__", "index", "count", "copy",
)  # fmt: skip


@_recording(
    list, _SEQUENCE_LOOKS,
    ("__setitem__", "__delitem__", "__iadd__", "append", "extend", "insert", "pop", "remove", "clear", "sort",
     "reverse"),
)  # fmt: skip
class TrackedList(list[Any], Named):
    """A list that notes how it is used."""

    __hash__ = None  # type: ignore[assignment]


@_recording(
    collections.deque, _SEQUENCE_LOOKS,
    ("__setitem__", "__delitem__", "__iadd__", "append", "appendleft", "extend", "extendleft", "insert", "pop",
     "popleft", "remove", "clear", "rotate", "reverse"),
)  # fmt: skip
class TrackedDeque(collections.deque[Any], Named):
    """A deque that notes how it is used."""

    __hash__ = None  # type: ignore[assignment]


_DICT_LOOKS = (
    "__iter__", "__eq__", "__ne__", "__or__", "__ror__", "__reversed__", "keys", "values", "items", "copy",
)  # fmt: skip


#: The methods of the plain class, for a mixin that is no dict by itself.
_dict: Any = dict


class _Mapping(Named):
    """The methods of a dict by key; their order of insertion is a property of the whole."""

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        note(self, SIZE, READ)
        return int(_dict.__len__(self))

    def __getitem__(self, key: Any) -> Any:
        note(self, key, READ)
        return super().__getitem__(key)  # type: ignore[misc]

    def get(self, key: Any, default: Any = None) -> Any:
        """See `dict`."""
        note(self, key, READ)
        return super().get(key, default)  # type: ignore[misc]

    def __contains__(self, key: Any) -> bool:
        note(self, key, READ)
        return bool(_dict.__contains__(self, key))

    def __setitem__(self, key: Any, value: Any) -> None:
        self._change(key)
        super().__setitem__(key, value)  # type: ignore[misc]

    def __delitem__(self, key: Any) -> None:
        self.pop(key)

    def pop(self, key: Any, *default: Any) -> Any:
        """See `dict`."""
        if _dict.__contains__(self, key):
            self._change(key)
        else:
            note(self, key, READ)
        return _dict.pop(self, key, *default)

    def popitem(self, *given: Any, **named: Any) -> Any:
        """See `dict`."""
        note(self, WHOLE, WRITE)
        return super().popitem(*given, **named)  # type: ignore[misc]

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """See `dict`."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *given: Any, **named: Any) -> None:
        """See `dict`."""
        for key, value in dict(*given, **named).items():
            self[key] = value

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def clear(self) -> None:
        """See `dict`."""
        for key in [*_dict.keys(self)]:
            self.pop(key)
        note(self, WHOLE, READ)

    def _change(self, key: Any) -> None:
        note(self, key, WRITE, _dict.get(self, key, NOTHING))
        note(self, WHOLE, GROW)
        note(self, SIZE, GROW)


@_recording(dict, _DICT_LOOKS)
class TrackedDict(_Mapping, dict[Any, Any]):
    """A dict that notes how it is used."""


@_recording(collections.OrderedDict, _DICT_LOOKS, ("move_to_end",))
class TrackedOrderedDict(_Mapping, collections.OrderedDict[Any, Any]):
    """An OrderedDict that notes how it is used."""


@_recording(collections.defaultdict, _DICT_LOOKS)
class TrackedDefaultDict(_Mapping, collections.defaultdict[Any, Any]):
    """A defaultdict that notes how it is used."""

    def __getitem__(self, key: Any) -> Any:
        if not dict.__contains__(self, key):
            assert self.default_factory is not None
            self[key] = self.default_factory()
        return super().__getitem__(key)


@_recording(
    set,
    ("__iter__", "__eq__", "__ne__", "__and__", "__or__", "__sub__", "__xor__", "__rand__", "__ror__", "__rsub__",
     "__lt__", "__le__", "__gt__", "__ge__", "copy", "difference", "intersection", "isdisjoint", "issubset",
     "issuperset", "union", "symmetric_difference"),
    ("pop", "__iand__", "__ixor__", "intersection_update"),
)  # fmt: skip
class TrackedSet(set[Any], Named):
    """A set that notes how it is used, by element."""

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        note(self, SIZE, READ)
        return set.__len__(self)

    def __contains__(self, key: Any) -> bool:
        note(self, key, READ)
        return set.__contains__(self, key)

    def add(self, key: Any) -> None:
        """See `set`."""
        self._change(key, there=False)
        super().add(key)

    def discard(self, key: Any) -> None:
        """See `set`."""
        self._change(key, there=True)
        super().discard(key)

    def remove(self, key: Any) -> None:
        """See `set`."""
        self._change(key, there=True)
        super().remove(key)

    def update(self, *others: Iterable[Any]) -> None:
        """See `set`."""
        for key in itertools.chain(*others):
            self.add(key)

    def difference_update(self, *others: Iterable[Any]) -> None:
        """See `set`."""
        for key in itertools.chain(*others):
            self.discard(key)

    def __ior__(self, other: Any) -> Any:  # type: ignore[misc]
        self.update(other)
        return self

    def __isub__(self, other: Any) -> Any:  # type: ignore[misc]
        self.difference_update(other)
        return self

    def clear(self) -> None:
        """See `set`."""
        self.difference_update([*set.__iter__(self)])
        note(self, WHOLE, READ)

    def _change(self, key: Any, *, there: bool) -> None:
        if set.__contains__(self, key) is there:
            note(self, key, WRITE, there)
            note(self, WHOLE, GROW)
            note(self, SIZE, GROW)
        else:
            note(self, key, READ)


class TrackedCount(Named):
    """An `itertools.count` that notes each number taken."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers

    def __iter__(self) -> TrackedCount:
        return self

    def __next__(self) -> int:
        note(self, WHOLE, WRITE)
        return next(self._numbers)


#: By class of a plain container: makes one that notes its use.
TRACKED: dict[type, Callable[[Any], Any]] = {
    dict: TrackedDict,
    list: TrackedList,
    set: TrackedSet,
    collections.OrderedDict: TrackedOrderedDict,
    collections.deque: lambda made: TrackedDeque(made, made.maxlen),
    collections.defaultdict: lambda made: TrackedDefaultDict(made.default_factory, made),
    itertools.count: TrackedCount,
}
#: By name of a base class: the one that notes its use.
BASES: dict[str, type] = {
    "dict": TrackedDict, "list": TrackedList, "set": TrackedSet, "deque": TrackedDeque,
}  # fmt: skip


def tracked(value: Any, made: str) -> Any:
    """Return a container that notes its use, in place of a plain one.

    Args:
        made: where it is made.
    """
    make = TRACKED.get(type(value))
    if make is None:
        return value
    result = make(value)
    result.made = made
    note_made(result)
    return result
