"""Functions in SQL and PL/pgSQL, and the triggers that call them.

A body is compiled at its first call (`body`), as in PostgreSQL. Constructs that the model lacks are refused then,
or at definition if words of the body show them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from typing import Any

from twopc.lexer import unquoted
from twopc.sim.model.sql import body, rights
from twopc.sim.model.sql.bind import Context, NamedRow
from twopc.sim.model.sql.parameters import RoutineSignature, checked, read
from twopc.sim.model.sql.steps import StatementBlock
from twopc.sim.model.values import RowChange, SqlError, Steps, UnsupportedError

_OPERATIONS = {"ins": "INSERT", "upd": "UPDATE", "del": "DELETE", "tru": "TRUNCATE"}
_TRIGGER_VARIABLES = frozenset(
    {
        "new",
        "old",
        "tg_name",
        "tg_op",
        "tg_table_name",
        "tg_relname",
        "tg_when",
        "tg_level",
        "tg_nargs",
        "found",
    }
)


class Function:
    """A function or procedure; called with an open transaction and its arguments."""

    def __init__(
        self,
        name: str,
        signature: RoutineSignature,
        language: str,
        text: str,
        plans: Any,
    ) -> None:
        self.name = name
        self.signature = signature
        self.language = language
        self.text = text
        self._plans = plans
        self.void = False
        """Whether the function returns void, which is shown as an empty text."""
        self._compiled: StatementBlock | None = None

    def __call__(self, tx: Any, /, *given: Any, **named: Any) -> Steps[Any]:
        """Call the routine with a statement's arguments and return its value. Raise 42883."""
        return (yield from self.applied(tx, *self.signature.arranged(tx, given, named)))

    def applied(self, tx: Any, *given: Any) -> Steps[Any]:
        """Call the routine with the values of all input parameters and return its value."""
        signature = self.signature
        variables: dict[str, Any] = {each.name: None for each in signature.parameters}
        for each, value in zip(signature.given, given, strict=True):
            variables[each.name] = each.type.store(value)
        for place, value in enumerate(list(variables.values()), 1):
            variables[f"${place}"] = value
        value = yield from self.run(tx, variables)
        if signature.outs:
            return signature.results(variables)
        return "" if self.void else value

    def prepare(self) -> None:
        """Compile the body before it is called.

        Raise UnsupportedError; in SQL also 42P01 and the like, as servers check only bodies in SQL at definition.
        """
        names = [each.name for each in self.signature.parameters]
        with suppress(SqlError) if self.language == "plpgsql" else nullcontext():
            self._block([*names, *(f"${place}" for place, _ in enumerate(names, 1))])

    def _block(self, names: Iterable[str]) -> StatementBlock:
        known = frozenset(names) | {"found"}
        if self.language == "sql":
            return body.sql_body(self.text, known, self._plans)
        return body.plpgsql_body(self.text, known, self._plans)

    def run(self, tx: Any, variables: dict[str, Any]) -> Steps[Any]:
        """Run the body with these variables and return its value."""
        if self._compiled is None:
            self._compiled = self._block(variables)
        variables["found"] = False
        c = Context(tx, {}, variables)
        c.snap = tx.statement()
        tx.calls += 1
        if tx.calls > 200:
            raise SqlError("54001", "stack depth limit exceeded")
        try:
            signal = yield from self._compiled.run(tx, c)
        finally:
            tx.calls -= 1
        return signal[1] if isinstance(signal, tuple) else None


class SqlTrigger:
    """A trigger with a function in PL/pgSQL, or with a Python function that was given to the model."""

    def __init__(
        self, name: str, when: str, operations: frozenset[str], function: Any, plans: Any
    ) -> None:
        self.name = name
        self.when = when
        self.operations = operations
        self.fires = "origin"
        self.condition: Any = None
        self._function = function
        self._plans = plans

    def fire(
        self, tx: Any, table: str, changes: Sequence[RowChange]
    ) -> Steps[Sequence[RowChange] | None]:
        """Run the trigger function once: for a row, or for a statement."""
        there = self._plans.node.table(table)
        by_row = "statement" not in self.when
        change = changes[0] if by_row and changes else None
        new = list(change.new) if change is not None and change.new is not None else None
        old = change.old if change is not None else None
        variables: dict[str, Any] = {
            "new": NamedRow(there.at, new),
            "old": NamedRow(there.at, old),
            "tg_name": self.name,
            "tg_op": _OPERATIONS[change.operation]
            if change is not None
            else _OPERATIONS[min(self.operations)],
            "tg_table_name": table.rpartition(".")[2],
            "tg_relname": table.rpartition(".")[2],
            "tg_when": "BEFORE" if self.when.startswith("before") else "AFTER",
            "tg_level": "ROW" if by_row else "STATEMENT",
            "tg_nargs": 0,
        }
        if self.condition is not None and self.condition(Context(tx, {}, variables)) is not True:
            return None
        if not isinstance(self._function, Function):
            return (yield from self._function(tx, table, changes))  # type: ignore[no-any-return] # as it was given
        before, tx.cause = tx.cause, f"trigger {self.name} of table {table}"
        try:
            value = yield from self._function.run(tx, variables)
        finally:
            tx.cause = before
        if self.when != "before row" or change is None:
            return None
        if value is None:
            return ()
        if change.operation == "del" or not isinstance(value, NamedRow) or value.values is None:
            return (change,)
        stored = tuple(
            column.type.store(one) for column, one in zip(there.columns, value.values, strict=True)
        )
        return (change._replace(new=self._plans.node.generated(there, stored)),)


#: Parts of a definition that the model lacks: functions not called for nulls, or with an older snapshot; some triggers.
_FOREIGN = (
    "strict",
    "null on null input",
    "stable",
    "window",
    "update of",
    "instead of",
    "referencing",
)


# -- definitions ---------------------------------------------------------------------------------------


def refuse(text: str, words: Sequence[str]) -> None:
    """Refuse a definition that has a part which the model lacks.

    Raises:
        UnsupportedError: the definition has such a part.
    """
    outside = " ".join(word for word in words if not word.startswith(("$", "'")))
    for phrase in _FOREIGN:
        if f" {phrase} " in f" {outside} ":
            raise UnsupportedError(text, f"{phrase.upper()} of a routine or a trigger")


def define(text: str, words: tuple[str, ...], tx: Any, plans: Any) -> str:
    """Execute CREATE FUNCTION, PROCEDURE or TRIGGER. Raise 42501."""
    place = next(
        at for at, word in enumerate(words) if word in ("function", "procedure", "trigger")
    )
    if words[place] == "trigger":
        _trigger(text, words, place + 1, tx, plans)
        return "CREATE TRIGGER"
    rights.must_be_superuser(tx, "permission denied for schema public")
    opening = words.index("(")
    name = "".join(unquoted(one) for one in words[place + 1 : opening]).removeprefix("public.")
    closing = _closing(words, opening)
    rest = list(words[closing + 1 :])
    language = unquoted(rest[rest.index("language") + 1]) if "language" in rest else "sql"
    source = next((one for one in rest if one.startswith(("$", "'"))), None)
    if language.lower() not in ("sql", "plpgsql") or source is None:
        raise UnsupportedError(text, f"a function in {language}")
    for at, word in enumerate(rest):
        if word == "set" and rest[at + 1] != "search_path":
            raise UnsupportedError(text, f"a function that sets {rest[at + 1]}")
    if "setof" in rest or rest[:2] == ["returns", "table"]:
        raise UnsupportedError(text, "a function that returns rows")
    is_procedure = words[place] == "procedure"
    parameters = tuple(read(text, words[opening + 1 : closing], plans))
    signature = RoutineSignature(name, parameters, is_procedure=is_procedure)
    function = Function(
        name,
        checked(text, signature, language=language.lower(), is_procedure=is_procedure),
        language.lower(),
        unquoted(source),
        plans,
    )
    function.void = rest[:2] == ["returns", "void"] and language.lower() == "plpgsql"
    if language.lower() == "plpgsql":
        body.check(function.text)
    if hasattr(plans.node.functions.get(name), "article"):
        raise UnsupportedError(text, "another body for a published routine")
    plans.node.procedures[name] = plans.node.functions[name] = function
    return f"CREATE {words[place].upper()}"


def _closing(words: tuple[str, ...], opening: int) -> int:
    depth = 0
    for place in range(opening, len(words)):
        depth += {"(": 1, ")": -1}.get(words[place], 0)
        if not depth:
            return place
    raise SqlError("42601", "syntax error: a bracket is not closed")


def _trigger(text: str, words: tuple[str, ...], place: int, tx: Any, plans: Any) -> None:
    name = unquoted(words[place])
    timing = words[place + 1]
    on = words.index("on", place)
    events = [word for word in words[place + 2 : on] if word != "or"]
    if timing not in ("before", "after") or not set(events) <= {
        "insert",
        "update",
        "delete",
        "truncate",
    }:
        raise UnsupportedError(text, "this kind of trigger")
    rest = words[on + 1 :]
    table_words = []
    for word in rest:
        if word in (
            "for",
            "execute",
            "when",
            "deferrable",
            "not",
            "initially",
            "from",
            "referencing",
        ):
            break
        table_words.append(unquoted(word))
    if "referencing" in rest or rest[len(table_words)] == "from":
        raise UnsupportedError(text, "REFERENCING")
    table = plans.node.table("".join(table_words))
    rights.must_have(tx, table, "trigger")
    execute = rest.index("execute")
    opening = rest.index("(", execute)
    function_name = "".join(rest[execute + 2 : opening]).removeprefix("public.")
    function = plans.function(function_name)
    if function is None:
        raise SqlError("42883", f"function {function_name}() does not exist")
    if rest[opening + 1] != ")":
        raise UnsupportedError(text, "arguments of a trigger")
    each_row = "row" in rest[:execute]
    when = f"{timing} row" if each_row else f"{timing} statement"
    if "deferred" in rest[:execute] and "initially" in rest[:execute]:
        when = "deferred"
    operations = frozenset(event[:3] for event in events)
    trigger = SqlTrigger(name, when, operations, function, plans)

    if "when" in rest[:execute]:
        start = text.lower().index("when", text.lower().index(" on "))
        opening_at = text.index("(", start)
        condition = text[opening_at : text.lower().rindex("execute")].strip()
        trigger.condition = plans.expression_with(condition, _TRIGGER_VARIABLES)
    if any(one.name == name for one in table.triggers):
        if "replace" not in words[:3]:
            raise SqlError("42710", f'trigger "{name}" for relation "{table.name}" already exists')
        table.triggers = [one for one in table.triggers if one.name != name]
    plans.node.add_trigger(table.name, trigger)


def alter_trigger(text: str, words: tuple[str, ...], tx: Any, plans: Any) -> str:
    """Execute ALTER TABLE … ENABLE or DISABLE TRIGGER. Raise 42501 or 42704."""
    at = words.index("trigger")
    verb = " ".join(
        word
        for word in words[max(0, at - 2) : at]
        if word in ("enable", "disable", "always", "replica")
    )
    start = next(place for place, word in enumerate(words) if word in ("enable", "disable"))
    names = [unquoted(word) for word in words[2:start] if word not in ("only", "if", "exists")]
    table = plans.node.table("".join(names))
    rights.must_own(tx, table)
    fires = {
        "enable": "origin",
        "disable": "disabled",
        "enable always": "always",
        "enable replica": "replica",
    }[verb]
    name = unquoted(words[at + 1])
    results = [one for one in table.triggers if name in ("all", "user", one.name)]
    if not results and name not in ("all", "user"):
        raise SqlError("42704", f'trigger "{name}" for table "{table.name}" does not exist')
    for trigger in results:
        trigger.fires = fires
    return "ALTER TABLE"


def drop_trigger(words: Sequence[str], tx: Any, plans: Any, *, missing_ok: bool) -> str:
    """Execute DROP TRIGGER … ON …. Raise 42501 or 42704."""
    name, table = unquoted(words[0]), plans.node.table("".join(words[2:]))
    left = [one for one in table.triggers if one.name != name]
    if len(left) == len(table.triggers) and not missing_ok:
        raise SqlError("42704", f'trigger "{name}" for table "{table.name}" does not exist')
    if len(left) < len(table.triggers):
        rights.must_own(tx, table, "relation")
    table.triggers = left
    table.settle()
    return "DROP TRIGGER"
