"""Statements to plans: each text is compiled once for a node, and again after the node's definitions have changed.

A plan is called with the open transaction and parameters. A statement that controls transactions has no plan: it
becomes a `Control`, which the session executes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from twopc.sim.model.sql import ddl, insert, parse, plpgsql, rights, select, utility, write
from twopc.sim.model.sql.bind import Scope
from twopc.sim.model.sql.control import Control, control
from twopc.sim.model.sql.expressions import compiled
from twopc.sim.model.sql.select import Plan
from twopc.sim.model.sql.short import ShortPaths
from twopc.sim.model.values import (
    SqlError,
    StatementResult,
    Steps,
    UnsupportedError,
)

if TYPE_CHECKING:
    from twopc.sim.model.node.node import ModelNode


#: Objects whose CREATE has no effect, as a schema is only a part of tables' names; and the error for other roles.
_EMPTY = {
    "schema": "permission denied for database {node}",
    "role": "permission denied to create role",
    "user": "permission denied to create role",
    "extension": "permission denied to create extension",
}


class StatementPlans:
    """The plans of one node's statements."""

    #: Called by `expressions`, which cannot import `select`: each needs the other.
    subquery = staticmethod(select.subquery)

    def __init__(self, node: ModelNode) -> None:
        self.node = node
        self.variables: frozenset[str] = frozenset()
        """Variables of the PL/pgSQL function whose statements are being compiled."""
        self._known: dict[str, Plan | Control] = {}
        self._short = ShortPaths(self.function, lambda verb, gid: Control(verb, gid))

    def get(self, text: str) -> Plan | Control:
        """Return the plan or `Control` of a text. Raise 42601, errors of name resolution, or UnsupportedError."""
        result = self._known.get(text)
        if result is None:
            short: Plan | Control | None = self._short.find(text)
            if short is not None:
                return short  # not cached: a gid is used once
            steers = control(text)
            if steers is not None and steers.name and steers.verb != "begin":
                return steers  # not cached either
            result = steers or self._compiled(text)
            if len(self._known) > 10_000:
                self._known.clear()
            self._known[text] = result
        return result

    def statement(self, text: str) -> Plan:
        """Return the plan of a text. Raise 2D000 if it controls transactions."""
        result = self.get(text)
        if isinstance(result, Control):
            raise SqlError("2D000", "invalid transaction termination")
        return result

    def forget(self) -> None:
        """Discard all plans, because definitions have changed."""
        self._known.clear()
        self._short.forget()

    def compile_with(self, text: str, variables: frozenset[str]) -> Plan:
        """Compile a statement of a function that has these variables."""
        with self._with_variables(variables):
            if control(text) is not None:
                raise SqlError("2D000", "invalid transaction termination")
            return self._compiled(text)

    def expression_with(self, text: str, variables: frozenset[str]) -> Callable[..., Any]:
        """Compile an expression of a function that has these variables: ``closure(context)``."""
        with self._with_variables(variables):
            fn = compiled(parse.expression(text), Scope(self))
        return lambda c: fn((), c)

    @contextmanager
    def _with_variables(self, variables: frozenset[str]) -> Iterator[None]:
        before, self.variables = self.variables, variables
        try:
            yield
        finally:
            self.variables = before

    def _compiled(self, text: str) -> Plan:
        words = parse.words(text)
        if not words:
            return utility.nothing
        result = utility.plan(text, words, self)
        if result is not None:
            return result
        result = self._definition(text, words)
        if result is not None:
            return result
        node = parse.tree(text)
        kind = parse.kind(node)
        if kind in ("Select", "Subquery"):
            return select.plan(node, self)
        if kind == "Update":
            return write.plan_update(node, self)
        if kind == "Delete":
            return write.plan_delete(node, self)
        if kind == "Insert":
            return insert.plan_insert(node, self)
        if kind == "Values":
            return select.plan(parse.tree(" ".join(("select * from (", text, ") as v"))), self)
        raise UnsupportedError(text, parse.construct(node))

    def _definition(self, text: str, words: tuple[str, ...]) -> Plan | None:
        if words[0] not in ("create", "alter", "drop"):
            return None

        act = self._definition_action(text, words)

        def define(
            tx: Any, params: Mapping[str, Any], variables: Any = None
        ) -> Steps[StatementResult]:
            tx.statement()
            tx.assign()
            try:
                tag = act(tx)
            finally:
                self.forget()
            return StatementResult(tag=tag)
            yield  # makes the plan a generator

        return define

    def _definition_action(self, text: str, words: tuple[str, ...]) -> Callable[[Any], str]:
        """Return the action of a definition. Raise UnsupportedError before anything is changed."""
        first = words[0]
        rest = [
            one
            for one in words[1:6]
            if one not in ("or", "replace", "temp", "temporary", "unlogged")
        ]
        what = rest[0] if rest else ""
        if first == "create" and what == "table":
            tree, temporary = parse.tree(text), words[1] in ("temp", "temporary")
            return lambda tx: self._create_table(tree, tx, temporary=temporary)
        if first == "create" and (
            what in ("function", "procedure", "trigger") or "trigger" in rest
        ):
            plpgsql.refuse(text, words)
            return lambda tx: plpgsql.define(text, words, tx, self)
        if first == "create" and (what == "index" or rest[:2] == ["unique", "index"]):
            tree = parse.tree(text)
            return lambda tx: ddl.create_index(tree, tx, self)
        if first == "alter" and what == "table" and "trigger" in words:
            return lambda tx: plpgsql.alter_trigger(text, words, tx, self)
        if first == "alter" and what == "table":
            if " owner to " in f" {' '.join(words)} ":
                return lambda tx: self._change_owner(text, words, tx)
            tree = parse.tree(text)
            return lambda tx: ddl.alter_table(tree, tx, self)
        if first == "drop":
            return lambda tx: self._drop(text, words, tx)
        if first == "create" and what in _EMPTY:
            return lambda tx: self._create_name(what, tx)
        raise UnsupportedError(text, f"{first} {what}".upper())

    def _create_table(self, tree: Any, tx: Any, *, temporary: bool) -> str:
        if not temporary:
            rights.must_be_superuser(tx, "permission denied for schema public")
        made = ddl.create_table(tree, self, temporary=temporary)
        if made is not None:
            made.owner = tx.session_user
            tx.sub.undo.append((self._undo_create_table, made, None))
            tx.top.temporary = tx.top.temporary or temporary
        return "CREATE TABLE"

    def _undo_create_table(self, table: Any, nothing: None) -> None:
        ddl.drop_table(table.name, self, missing_ok=True, cascade=True)
        self.forget()

    def _create_name(self, what: str, tx: Any) -> str:
        rights.must_be_superuser(tx, _EMPTY[what].format(node=self.node.name))
        return f"CREATE {what.upper()}"

    def _change_owner(self, text: str, words: tuple[str, ...], tx: Any) -> str:
        """Execute ALTER TABLE … OWNER TO …."""
        (name,) = utility.names(text, words[2 : words.index("owner")])
        rights.must_own(tx, table := self.node.table(name))
        table.owner = utility.names(text, words[words.index("to") + 1 :])[0]
        return "ALTER TABLE"

    def _drop(self, text: str, words: tuple[str, ...], tx: Any) -> str:
        what, missing_ok = words[1], words[2:4] == ("if", "exists")
        names = words[4:] if missing_ok else words[2:]
        if what == "table":
            cascade = names[-1:] == ("cascade",)
            tables = utility.names(text, names, ("cascade", "restrict"))
            for name in tables:
                if name in self.node.tables:
                    rights.must_own(tx, self.node.tables[name])
            for name in tables:
                ddl.drop_table(name, self, missing_ok=missing_ok, cascade=cascade)
            return "DROP TABLE"
        if what == "trigger":
            return plpgsql.drop_trigger(names, tx, self, missing_ok=missing_ok)
        if what in ("function", "procedure"):
            name = names[0]
            if name not in self.node.procedures and not missing_ok:
                raise SqlError("42883", f'could not find a function named "{name}"')
            if name in self.node.procedures:
                rights.must_be_superuser(tx, f"must be owner of {what} {name}")
            self.node.procedures.pop(name, None)
            self.node.functions.pop(name, None)
            return f"DROP {what.upper()}"
        raise UnsupportedError(text, f"DROP {what.upper()}")

    def function(self, name: str) -> Callable[..., Steps[Any]] | None:
        """Return the function that may wait with a name in SQL; None if there is none."""
        functions = self.node.functions
        return functions.get(name) or functions.get(name.removeprefix("public."))
