"""A fast path for statements that contain a gid: each text occurs once, so caching plans by text would not help.

The text before the first quote identifies a form of statement, and is remembered at its first use. Only the
simplest forms, which drivers send, are handled; any other statement is compiled as usual.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from twopc.sim.model.sql.bind import Context
from twopc.sim.model.sql.parameters import OutParameters
from twopc.sim.model.values import StatementResult, Steps, UnsupportedError

Maker = Callable[[str], Any]

#: A setting with a qualified name, whose value is always text.
_SET: Final = re.compile(r"set local ([a-z_]+\.[a-z_]+) = \Z")
_CALL: Final = re.compile(r"call ([a-z_]+\.[a-z_]+)\(\Z")
#: After the first quote: the rest of a string without escapes, then optionally NULL and another string.
_ARGUMENTS: Final = re.compile(r"([^'\\]*)'(, null)?(?:, '([^'\\]*)')?\)\Z")
_SET_DONE: Final = StatementResult(tag="SET")


class ShortPaths:
    """The fast paths of one node.

    Args:
        function: returns the function that may wait with a name.
        control: makes a statement that controls transactions, from verb and gid.
    """

    def __init__(
        self,
        function: Callable[[str], Callable[..., Steps[Any]] | None],
        control: Callable[[str, str], Any],
    ) -> None:
        self._function = function
        self._heads: dict[str, Maker] = {}
        for verb in ("prepare", "commit prepared", "rollback prepared"):
            head = "prepare transaction " if verb == "prepare" else f"{verb} "
            self._heads[head] = _control_maker(control, verb)

    def find(self, text: str) -> Any:
        """Return the plan or `Control` of a text; None if it must be compiled."""
        head, quote, rest = text.partition("'")
        if not quote:
            return None
        maker = self._heads.get(head) or self._learn(head)
        return maker(rest) if maker is not None else None

    def forget(self) -> None:
        """Discard the paths of CALL, because definitions have changed."""
        for head in [one for one in self._heads if one.startswith("call ")]:
            del self._heads[head]

    def _learn(self, head: str) -> Maker | None:
        maker: Maker | None = None
        if match := _SET.match(head):
            maker = _set_maker(match[1])
        elif match := _CALL.match(head):
            function = self._function(match[1])
            maker = _call_maker(function, match[1]) if function is not None else None
        if maker is not None:
            self._heads[head] = maker
        return maker


def _control_maker(control: Callable[[str, str], Any], verb: str) -> Maker:
    def make(rest: str) -> Any:
        gid = rest[:-1]
        return control(verb, gid) if rest[-1:] == "'" and _is_plain(gid) else None

    return make


def _set_maker(name: str) -> Maker:
    def make(rest: str) -> Any:
        value = rest[:-1]
        if rest[-1:] != "'" or not _is_plain(value):
            return None

        def run(
            tx: Any, params: Mapping[str, Any], variables: Any = None
        ) -> Steps[StatementResult]:
            tx.set(name, value, local=True)
            return _SET_DONE
            yield  # makes the plan a generator

        return run

    return make


def _call_maker(function: Callable[..., Steps[Any]], name: str) -> Maker:
    """Return the maker of a CALL, with literals, of a procedure that may wait."""

    def make(rest: str) -> Any:
        match = _ARGUMENTS.match(rest)
        if match is None:
            return None
        first, null, last = match.groups()
        given: list[Any] = [first]
        if null:
            given.append(None)
        if last is not None:
            given.append(last)

        def run(
            tx: Any, params: Mapping[str, Any], variables: Any = None
        ) -> Steps[StatementResult]:
            tx.statement()
            return call_result(name, (yield from function(tx, *given)))

        return run

    return make


def call_result(name: str, value: Any) -> StatementResult:
    """Return the result of CALL: one row if the procedure returns a value."""
    if value is None:
        return StatementResult(tag="CALL")
    if isinstance(value, OutParameters):
        return StatementResult(tag="CALL", names=value.names, rows=(value.values,), rowcount=1)
    return StatementResult(
        tag="CALL", names=(name.rpartition(".")[2],), rows=((value,),), rowcount=1
    )


def call_plan(
    function: Callable[..., Steps[Any]], name: str, given: list[Any], named: Mapping[str, Any]
) -> Callable[..., Any]:
    """Return the plan of a CALL, with expressions as arguments, of a procedure that may wait."""

    def run(tx: Any, params: Mapping[str, Any], variables: Any = None) -> Steps[StatementResult]:
        c = Context(tx, params, variables)
        c.snap = tx.statement()
        by_name = {key: one((), c) for key, one in named.items()}
        result = yield from function(tx, *[one((), c) for one in given], **by_name)
        if variables is not None and isinstance(result, OutParameters):
            raise UnsupportedError(f"call {name}", "output parameters of a CALL in a body")
        return call_result(name, result)

    return run


def _is_plain(value: str) -> bool:
    return "'" not in value and "\\" not in value
