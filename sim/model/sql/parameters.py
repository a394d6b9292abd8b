"""Parameters of a routine: matching a call's arguments to them, default values, and output parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from twopc.lexer import unquoted
from twopc.sim.model.sql import types
from twopc.sim.model.sql.bind import Context, Fn, Scope
from twopc.sim.model.sql.expressions import compiled
from twopc.sim.model.sql.parse import kind
from twopc.sim.model.values import SqlError, UnsupportedError

#: Key of an array that is passed for the variadic parameter as a whole: ``VARIADIC array``.
WHOLE = ""


class RoutineParameter(NamedTuple):
    """One parameter of a routine."""

    name: str
    type: types.SqlType
    mode: str = "i"
    """Mode: i (in), o (out), b (inout) or v (variadic)."""
    default: Callable[[Context], Any] | None = None


class OutParameters(NamedTuple):
    """Names and final values of a procedure's output parameters."""

    names: tuple[str, ...]
    values: tuple[Any, ...]


class RoutineSignature:
    """The parameters of one routine.

    Args:
        is_procedure: whether CALL lists the output parameters too.
    """

    def __init__(
        self, name: str, parameters: Sequence[RoutineParameter], *, is_procedure: bool
    ) -> None:
        self._name = name
        self._is_procedure = is_procedure
        self.parameters = tuple(parameters)
        self.given = tuple(each for each in parameters if each.mode != "o")
        self.outs = tuple(each for each in parameters if each.mode in ("o", "b"))
        self._call_parameters = self.parameters if is_procedure else self.given
        last = self._call_parameters[-1] if self._call_parameters else None
        self._variadic = last if last is not None and last.mode == "v" else None

    def arranged(self, tx: Any, values: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """Return the values of the input parameters (`given`) for a call. Raise 42883 if its arguments do not
        match.
        """
        results = {
            each.name: value for each, value in zip(self._call_parameters, values, strict=False)
        }
        if self._variadic is not None and WHOLE in named:
            results[self._variadic.name] = named[WHOLE]
        elif self._variadic is not None and len(values) >= len(self._call_parameters):
            results[self._variadic.name] = list(values[len(self._call_parameters) - 1 :])
        elif len(values) > len(self._call_parameters):
            raise self._no_match_error(len(values))
        for name, value in named.items():
            if name != WHOLE:
                if name in results or all(each.name != name for each in self._call_parameters):
                    raise self._no_match_error(len(values) + len(named))
                results[name] = value
        for each in self._call_parameters:
            if each.name not in results:
                if each.default is None:
                    raise self._no_match_error(len(values) + len(named))
                results[each.name] = each.default(Context(tx, {}, {}))
        return [results[each.name] for each in self.given]

    def _no_match_error(self, count: int) -> SqlError:
        return SqlError("42883", f"function {self._name} with {count} arguments does not exist")

    def nothing(self) -> Any:
        """Return the result of a call that has failed and is continued."""
        return self.results({each.name: None for each in self.outs}) if self.outs else None

    def results(self, variables: Mapping[str, Any]) -> Any:
        """Return the final values of the output parameters."""
        values = tuple(
            None if variables[each.name] is None else each.type.store(variables[each.name])
            for each in self.outs
        )
        if self._is_procedure:
            return OutParameters(tuple(each.name for each in self.outs), values)
        return values[0]


def read(text: str, words: Sequence[str], plans: Any) -> Iterator[RoutineParameter]:
    """Yield the parameters of a definition, from the tokens in its parentheses. Raise UnsupportedError."""
    for number, part in enumerate(_split(words), 1):
        mode, rest = "i", part
        if part[0] in _MODES and len(part) > 1:
            mode, rest = _MODES[part[0]], part[1:]
        stops = [at for at, word in enumerate(rest) if word in ("default", "=", ":=")]
        default = None
        if stops:
            default = plans.expression_with(" ".join(rest[stops[0] + 1 :]), frozenset())
            rest = rest[: stops[0]]
        name = f"${number}" if len(rest) == 1 else unquoted(rest[0])
        type_text = " ".join(rest[1:] or rest).replace(" [ ]", "[]").replace(" (", "(")
        yield RoutineParameter(name, types.named(type_text), mode, default)


def checked(
    text: str, signature: RoutineSignature, *, language: str, is_procedure: bool
) -> RoutineSignature:
    """Return the signature if the model can return its output parameters. Raise UnsupportedError if it cannot."""
    if signature.outs and language == "sql":
        raise UnsupportedError(text, "output parameters of a function in SQL")
    if len(signature.outs) > 1 and not is_procedure:
        raise UnsupportedError(text, "several output parameters of a function")
    return signature


def given_by(nodes: Sequence[Any], scope: Scope) -> tuple[list[Fn], dict[str, Fn]]:
    """Compile the arguments of a call: those by position, and those by name."""
    given: list[Fn] = []
    named: dict[str, Fn] = {}
    for node in nodes:
        if kind(node) == "Variadic":
            named[WHOLE] = compiled(node.this, scope)
        elif kind(node) in ("Kwarg", "PropertyEQ"):
            named[str(node.this.this).lower()] = compiled(node.expression, scope)
        else:
            given.append(compiled(node, scope))
    return given, named


_MODES = {"in": "i", "out": "o", "inout": "b", "variadic": "v"}


def _split(words: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    depth = 0
    for word in words:
        depth += {"(": 1, ")": -1}.get(word, 0)
        if word == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]
