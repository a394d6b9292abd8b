"""Routines whose execution is published, in virtual time: the gate and the bracket around their bodies.

Implements the wrapper that `twopc.publisher.proc_execution` makes of a routine. `twopc.proc_execution` decides
whether a call
may be sent, the log reader's planner whether it is sent. This module does not know Subscribers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from twopc.proc_execution import (
    Argument,
    GateFacts,
    ProcArticle,
    ProcCall,
    ProcType,
    gate_verdict,
)
from twopc.sim.model.distribution.articles import type_text
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.replication.articles import ACTS
from twopc.sim.model.sql import parse
from twopc.sim.model.sql.plpgsql import Function, SqlTrigger
from twopc.sim.model.sql.types import output
from twopc.sim.model.values import ModelSpec, ProcedureSpec, SqlError, Steps, UnsupportedError

MARKER = "msrepl.call_marker"
_TABLE = """
create table msrepl.call_marker (id bigint generated always as identity primary key, article_id integer not null,
    opened bigint, snapshot text, call text, failure text, created_at timestamptz not null default now())
"""
#: Classes of errors that a routine passes on even without `xact_abort`.
_PASSED_ON = ("08", "40", "53", "57", "58", "XX")

#: Functions that `twopc.sim.model.wiring.Wiring.parts` can replace, by name.
Gate = Callable[[GateFacts], str | None]


def own_snapshot(tx: OpenTx) -> str:
    """Return the snapshot of a call's transaction, in the form of pg_current_snapshot() within the routine."""
    seen: str = tx.top.seen
    return seen or tx.node.snapshot_text()


def as_said(article: ProcArticle) -> bool:
    """Whether an error of the routine is raised to its caller."""
    return article.xact_abort


PARTS: Mapping[str, Callable[..., Any]] = {
    "call_gate": gate_verdict,
    "call_snapshot": own_snapshot,
    "call_aborts": as_said,
}


def publish(
    node: ModelNode, whole: ModelSpec, spec: ProcedureSpec, number: int, parts: Mapping[str, Any]
) -> ProcArticle:
    """Create a routine at the Publisher and return its article.

    Args:
        parts: replaced functions, by the names of `PARTS`.

    Raises:
        UnsupportedError: the definition has a part that the model lacks.
    """
    before = {*node.procedures}
    node.define(spec.body)
    made = [name for name in node.procedures if name not in before]
    words = parse.words(spec.body)
    if len(made) != 1:
        raise UnsupportedError(spec.body, "two routines of one name")
    if {"commit", "rollback"} & {*parse.words(node.procedures[made[0]].text)}:
        raise UnsupportedError(spec.body, "a routine that ends transactions")
    function: Function = node.procedures[made[0]]
    function.prepare()
    article = ProcArticle(
        article_id=number,
        schema="public",
        name=made[0],
        kind="f" if "function" in words[:4] else "p",
        arguments=tuple(
            Argument(
                name="" if each.name.startswith("$") else each.name,
                mode=each.mode,
                type=type_text(each.type),
            )
            for each in function.signature.parameters
        ),
        type=ProcType(spec.type),
        reads=spec.reads,
        writes=spec.writes,
        xact_abort=spec.xact_abort,
        definition=replacing(spec.body),
        obstacle=_obstacle(node, spec, [table.name for table in whole.tables]),
    )
    called = whole.distributes and any(one.update == "read only" for one in whole.subscribers)
    if article.type is not ProcType.SCHEMA_ONLY:
        if MARKER not in node.tables:
            node.define(_TABLE)
            node.keeps_snapshots = True
        node.add_function(made[0], BracketedRoutine(article, function, called=called, parts=parts))
    return article


def replacing(body: str) -> str:
    """Return the definition as Subscribers execute it: CREATE OR REPLACE."""
    text = body.strip().rstrip(";")
    first, second, *_ = text.split(None, 2)
    if second.lower() == "or":
        return text
    return f"{first} or replace {text[len(first) :].lstrip()}"


def _obstacle(node: ModelNode, spec: ProcedureSpec, published: Iterable[str]) -> str | None:
    """Return a trigger or referential action that an agent would omit, which fires neither; None if there is none."""
    for name in spec.writes if spec.writes is not None else published:
        table = node.table(name)
        for trigger in table.triggers:
            if isinstance(trigger, SqlTrigger) and trigger.fires in ("origin", "always"):
                return f"table {name} has trigger {trigger.name}"
        for key in table.referenced:
            if key.on_delete in ACTS or key.on_update in ACTS:
                return f"table {name} is what {key.name} acts for"
    return None


class BracketedRoutine:
    """A published routine as its callers see it: ``msrepl_call.run_<n>`` and the gate."""

    def __init__(
        self, article: ProcArticle, body: Function, *, called: bool, parts: Mapping[str, Any]
    ) -> None:
        self.article = article
        self._body = body
        self._called = called
        self._gate: Gate = parts.get("call_gate", gate_verdict)
        self._snapshot = parts.get("call_snapshot", own_snapshot)
        self._aborts = parts.get("call_aborts", as_said)

    def __call__(self, tx: OpenTx, /, *values: Any, **named: Any) -> Steps[Any]:
        """Call the routine and return its value; errors of the body are raised if `xact_abort`, else recorded."""
        given = tuple(self._body.signature.arranged(tx, values, named))
        opened = None
        if self._gate(self._facts(tx)) is None:
            opened = yield from self._open(tx, given)
        nested = tx.running_calls > 0
        tx.running_calls += 1
        try:
            if self._aborts(self.article) or nested:
                value, failure = (yield from self._body.applied(tx, *given)), None
            else:
                value, failure = yield from self._guarded(tx, given)
        finally:
            tx.running_calls -= 1
        if opened is not None:
            yield from self._close(tx, opened, failure)
        return value

    def _guarded(self, tx: OpenTx, given: tuple[Any, ...]) -> Steps[tuple[Any, str | None]]:
        """Run the body in a subtransaction; return its value and the SQLSTATE of its error."""
        tx.savepoint("")
        sub = tx.sub
        try:
            value = yield from self._body.applied(tx, *given)
        except SqlError as error:
            if error.sqlstate[:2] in _PASSED_ON:
                raise
            while tx.sub is not sub.parent:
                tx.drop()
            return self._body.signature.nothing(), error.sqlstate
        tx.release("")
        return value, None

    def _facts(self, tx: OpenTx) -> GateFacts:
        return GateFacts(
            type=self.article.type,
            isolation=tx.level,
            read_only=tx.setting("transaction_read_only") == "on",
            called=self._called,
            origin=not tx.replica,
            obstacle=self.article.obstacle is not None,
            temporary=any(table.temporary for table in tx.node.tables.values()),
            branch=any(
                table.name == "msrepl.branch_marker"
                and new is not None
                and not new[table.at["fence"]]
                for table, _, _, new in tx.top.changes
            ),
        )

    def _open(self, tx: OpenTx, given: tuple[Any, ...]) -> Steps[int]:
        tx.statement()
        values = [
            each.type.store(value)
            for each, value in zip(self._body.signature.given, given, strict=True)
        ]
        call = ProcCall(
            values=tuple(None if value is None else output(value) for value in values),
            settings={"search_path": '"$user", public'},
        )
        return (yield from self._mark(tx, None, self._snapshot(tx), call.as_text(), None))

    def _close(self, tx: OpenTx, opened: int, failure: str | None) -> Steps[int]:
        return (yield from self._mark(tx, opened, None, None, failure))

    def _mark(self, tx: OpenTx, *values: Any) -> Steps[int]:
        table = tx.node.table(MARKER)
        number = tx.node.default(tx, table, table.columns[0])
        yield from tx.insert(MARKER, (number, self.article.article_id, *values))
        return int(number)


class RefuseWrites:
    """Trigger that refuses changes by roles that may only SELECT; agents and superusers may write."""

    when = "before statement"
    operations = frozenset({"ins", "upd", "del", "tru"})
    fires = "origin"
    name = "msrepl_read_only"

    def fire(self, tx: Any, table: str, changes: Any) -> Steps[Any]:
        """Raise 42501 if the role is not a superuser."""
        if tx.session_user not in tx.node.superusers:
            raise SqlError("42501", f"permission denied for table {table}")
        return None
        yield  # makes this a generator, as a trigger may wait
