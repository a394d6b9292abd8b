"""The accesses of an event: which locations it has used, how, and in which functions.

A *location* is an attribute of an object, a key of a dict or a set, or a container as a whole.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Hashable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

#: How a location is used. `GROW` is a change of a single key, noted at the container as a whole: it conflicts with a
#: look at the whole, but not with a change of another key.
READ, WRITE, GROW = 1, 2, 4
#: Keys under which a container is noted as a whole, and its size.
WHOLE, SIZE = "*", "#"
#: In place of a value that does not exist.
NOTHING: Any = object()

Location = tuple[int, Hashable]
#: A function and its caller.
By = tuple[CodeType, CodeType]
#: By location and function: how it was used.
Used = dict[Location, dict[By, int]]

_HERE = str(Path(__file__).parent)
_PARTS = frozenset(("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>"))


class Accesses:
    """The accesses of one event."""

    __slots__ = ("before", "made", "used")

    def __init__(self) -> None:
        self.used: Used = {}
        self.before: dict[Location, Any] = {}
        """The value of each location before the first write."""
        self.made: set[int] = set()
        """Objects that the event has made."""


class Recorder:
    """Records the accesses of the events of all runs; one at a time."""

    now: Accesses | None = None
    """The accesses of the event that is happening; None outside of events."""
    kept: dict[int, Any] = {}  # noqa: RUF012 # one for all
    """Objects by identity: kept, so that an identity belongs to one object for ever."""

    @classmethod
    def begin(cls) -> None:
        """Begin an event."""
        cls.now = Accesses()

    @classmethod
    def end(cls) -> Used:
        """End the event, and return what it has used.

        A value that is in the end what it was before the event has only been read.
        """
        done, cls.now = cls.now, None
        assert done is not None
        for location, before in done.before.items():
            if _same(before, cls._value(location)):
                done.used[location] = dict.fromkeys(done.used[location], READ)
        return done.used

    @classmethod
    def forget(cls) -> None:
        """Forget the objects of earlier runs."""
        cls.kept.clear()

    @classmethod
    def _value(cls, location: Location) -> Any:
        owner, key = cls.kept[location[0]], location[1]
        if isinstance(owner, dict):
            return dict.get(owner, key, NOTHING)
        if isinstance(owner, set):
            return set.__contains__(owner, key)
        if isinstance(owner, list | collections.deque):
            return NOTHING
        return attribute(owner, str(key))


def attribute(owner: Any, name: str) -> Any:
    """Return an attribute's value without noting it."""
    try:
        return object.__getattribute__(owner, name)
    except AttributeError:
        return NOTHING


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return one is not NOTHING
    return type(one) is type(other) and isinstance(one, int | str | float | bytes) and one == other


def note(owner: Any, key: Hashable, how: int, before: Any = NOTHING) -> None:
    """Note that a function outside of this package uses a location."""
    now = Recorder.now
    if now is None:
        return
    if id(owner) in now.made:
        return
    location = (id(owner), key)
    used = now.used.get(location)
    if used is None:
        Recorder.kept[id(owner)] = owner
        used = now.used[location] = {}
    frame = _function(sys._getframe(1))
    by = (frame.f_code, _function(frame.f_back).f_code)
    used[by] = used.get(by, 0) | how
    if how == WRITE and location not in now.before:
        now.before[location] = before


def note_assignment(owner: Any, name: str, before: Any) -> None:
    """Note that an attribute is assigned; an object without any is new."""
    if before is NOTHING and id(owner) not in Recorder.kept:
        note_made(owner)
    note(owner, name, WRITE, before)


def note_made(owner: Any) -> None:
    """Note that the event has made an object: its own use of it does not count, since others find it elsewhere."""
    Recorder.kept[id(owner)] = owner
    if Recorder.now is not None:
        Recorder.now.made.add(id(owner))


def _function(frame: FrameType | None) -> FrameType:
    """Return the first function outside of this package; a comprehension is a part of its function."""
    assert frame is not None
    while frame.f_back is not None and (
        frame.f_code.co_name in _PARTS or frame.f_code.co_filename.startswith(_HERE)
    ):
        frame = frame.f_back
    return frame


class Named:
    """A container that knows where it was made, and the attribute that has it, for messages."""

    made = ""
    kept_as = ""


def name_of(location: Location) -> str:
    """Return a location as ``Class.attribute``; of a container: ``Class.attribute[.]`` for an element of it,
    ``Class.attribute[*]`` for all of it, ``Class.attribute[#]`` for its size.
    """
    owner, key = Recorder.kept[location[0]], location[1]
    if not isinstance(owner, Named):
        return f"{type(owner).__name__}.{key}"
    part = key if key in (WHOLE, SIZE) else "."
    return f"{owner.kept_as or owner.made}[{part}]"
