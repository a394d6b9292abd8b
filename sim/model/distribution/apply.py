"""Effects of an agent's statements at a Subscriber: the position, the procedures of articles, the net effect.

Implements the effects of
``subscriber/sql/{move_position,msins,msreplace,msupd_bitmap,apply_call,apply_statement,apply_net,
net_updates,replraiserror}.sql``. Independent of which commands come next.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from twopc.distributed_article import DistributedArticle
from twopc.lsn import lsn_text
from twopc.proc_execution import CALL_TYPE, DEFINITION_TYPE, ProcArticle, base_of
from twopc.proc_execution import ProcCall as RoutineCall
from twopc.propagation import CommandType, Format
from twopc.sim.model.distribution.calls import ReadCall, Shape
from twopc.sim.model.node.heap import HeapTable
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.sql.types import named, output
from twopc.sim.model.values import SqlError, Steps

ROLE = "msrepl_agent"
POSITIONS = """
create table msrepl.msreplication_subscriptions (publisher text primary key, position bigint not null)
"""
POSITION = "msrepl.msreplication_subscriptions"
_OPERATIONS = {
    CommandType.INSERT: "ins", CommandType.UPDATE: "upd", CommandType.DELETE: "del",
    CommandType.SQL_INSERT: "ins", CommandType.SQL_UPDATE: "upd", CommandType.SQL_DELETE: "del",
}  # fmt: skip
_COMMAND = {"ins": "INSERT", "upd": "UPDATE", "del": "DELETE"}
_IN_THE_WAY = ("23505", "23P01", "23503")

#: A command as it is stored: code (article * 100 + type), text.
Call = tuple[int, str]
#: Applies one command: ``(receiver, tx, article, operation, text)``.
Apply = Callable[["Receiver", OpenTx, DistributedArticle, str, str], Steps[None]]


class Receiver:
    """The functions of a Subscriber that an agent calls.

    Args:
        articles: by number; more are added as tables are published.
        apply: the effect of one call; a plant can replace it.
        routines: articles of routines whose calls and definitions are delivered, by number.
    """

    def __init__(
        self,
        node: ModelNode,
        articles: Mapping[int, DistributedArticle],
        apply: Apply | None = None,
        routines: Mapping[int, ProcArticle] = MappingProxyType({}),
    ) -> None:
        self.node = node
        self._articles = articles
        self._shapes: dict[tuple[int, str], Shape] = {}
        self._apply_call = apply or apply_call
        self._routines = routines
        node.define(POSITIONS)
        node.replicators.add(ROLE)
        for name, function in (
            ("msrepl.move_position", self.move),
            ("msrepl.apply_block", self.block),
            ("msrepl.apply_net", self.net),
            ("msrepl.sp_msreplraiserror", self.raise_error),
        ):
            node.add_function(name, function)

    def begin(self, publisher: str) -> None:
        """Create the position for a Publisher, outside virtual time."""
        self.node.outside(lambda tx: tx.insert(POSITION, (publisher, 0)), "the agent's position")

    def check_procedures(self, article: DistributedArticle) -> None:
        """Raise 42883 if an article names a custom procedure that does not exist here."""
        for operation in ("ins", "upd", "del"):
            name = article.propagation.method(operation).procedure
            if name is not None and self.custom(article, operation) is None:
                raise SqlError("42883", f"function {name} does not exist")

    # -- the position --------------------------------------------------------------------------------

    def position(self, publisher: str) -> int | None:
        """Return the committed position; None if there never was a subscription."""
        table = self.node.table(POSITION)
        result: tuple[Any, ...] | None = next(
            (row for row in table.committed() if row[0] == publisher), None
        )
        return None if result is None else result[1]

    def move(self, tx: OpenTx, publisher: str, was: int, becomes: int) -> Steps[int]:
        """``msrepl.move_position``: raise 40001 if the position is not the one that the agent expects."""
        moved = yield from tx.update(
            POSITION,
            (publisher,),
            (publisher, becomes),
            lambda row: bool(row[1] == was),
        )
        if moved is None:
            raise SqlError(
                "40001",
                f"the position of what {publisher} distributes is not {lsn_text(was)} any more",
                hint="Another agent has delivered here, or the subscription was initialised again.",
            )
        return becomes

    # -- commands --------------------------------------------------------------------------------------

    def block(self, tx: OpenTx, calls: Sequence[Call]) -> Steps[int]:
        """Apply commands, one after the other."""
        for call in calls:
            yield from self.one(tx, call)
        return len(calls)

    def one(self, tx: OpenTx, call: Call) -> Steps[None]:
        """Apply one command through the procedure of its article."""
        code, text = call
        number, kind = divmod(code, 100)
        article_id = base_of(number)
        if kind in (CALL_TYPE, DEFINITION_TYPE) and article_id in self._routines:
            yield from self._routine(tx, self._routines[article_id], kind, text)
            return
        article = self._articles.get(article_id)
        operation = _OPERATIONS.get(kind, "")
        if article is None or not operation:
            raise SqlError("55000", f"there is nothing here that takes commands {code}")
        if article.propagation.method(operation).format is Format.SQL:
            yield from self._statement(tx, article, operation, text)
        else:
            yield from self._apply_call(self, tx, article, operation, text)

    def _routine(self, tx: OpenTx, article: ProcArticle, kind: int, text: str) -> Steps[None]:
        """Apply a command of ``apply_<P>_call`` or ``apply_<P>_definition``."""
        if kind == DEFINITION_TYPE:
            yield from tx.run(json.loads(text)["definition"])
            return
        function = self.node.functions.get(article.name)
        if function is None:
            raise SqlError("42883", f"procedure {article.identity} does not exist")
        given = [
            None if value is None else named(argument.type).input(value)
            for value, argument in zip(RoutineCall.parse(text).values, article.given, strict=True)
        ]
        tx.statement()
        yield from getattr(function, "applied", function)(tx, *given)
        failure = RoutineCall.parse(text).failure
        if failure is not None:
            raise SqlError(
                failure,
                f"a call of {article.identity} failed at the Publisher ({failure}) and does not fail here",
            )

    def _statement(
        self, tx: OpenTx, article: DistributedArticle, operation: str, text: str
    ) -> Steps[None]:
        result = yield from tx.run(text)
        if not result.rowcount:
            raise not_found(_COMMAND[operation], article.article.name, None, text)

    def net(self, tx: OpenTx, calls: Sequence[Call]) -> Steps[int]:
        """``msrepl.apply_net``: apply commands in any order that constraints allow; else raise the first error."""
        if (yield from self._tried(tx, lambda: self.block(tx, calls))):
            return len(calls)
        left = list(calls)
        while left:
            later = yield from self._each(tx, left)
            if len(later) == len(left):
                later = yield from self._together(tx, left)
                if len(later) == len(left):
                    yield from self.one(tx, left[0])
                    later = left[1:]
            left = later
        return len(calls)

    def _each(self, tx: OpenTx, calls: Sequence[Call]) -> Steps[list[Call]]:
        """Try each command separately; return those that violate a constraint."""
        later = []
        for call in calls:
            if not (yield from self._tried(tx, partial(self.one, tx, call))):
                later.append(call)  # noqa: PERF401 - in a generator's steps
        return later

    def _together(self, tx: OpenTx, left: list[Call]) -> Steps[list[Call]]:
        """Make updates that only conflict with each other at once, for one article; return the remaining commands."""
        for code in sorted({code for code, _ in left if code % 100 == CommandType.UPDATE}):
            calls = [text for each, text in left if each == code]
            article = self._articles[code // 100]
            if len(calls) < 2 or self.custom(article, "upd") is not None:
                continue
            if (yield from self._tried(tx, partial(self._exchange, tx, article, calls))):
                return [each for each in left if each[0] != code]
        return left

    def _exchange(self, tx: OpenTx, article: DistributedArticle, calls: list[str]) -> Steps[None]:
        """Delete the rows and insert them again, keeping the columns that only this Subscriber has."""
        table = self.node.table(article.article.name)
        rows = []
        for text in calls:
            call = self.read(article, "upd", text)
            old = tx.get(table.name, call.key)
            if old is None:
                raise not_found("UPDATE", article.article.name, call.shown_key, None)
            rows.append(call.updated(old))
            yield from tx.delete(table.name, call.key)
        for row in rows:
            yield from tx.insert(table.name, row)

    def _tried(self, tx: OpenTx, work: Callable[[], Steps[Any]]) -> Steps[bool]:
        """Run in a subtransaction; roll it back and return False if a constraint is violated."""
        tx.savepoint("msrepl_net")
        try:
            yield from work()
        except SqlError as error:
            tx.rollback_to("msrepl_net")
            tx.release("msrepl_net")
            if error.sqlstate not in _IN_THE_WAY:
                raise
            return False
        tx.release("msrepl_net")
        return True

    def read(self, article: DistributedArticle, operation: str, text: str) -> ReadCall:
        """Return a call, read with the types of the table here."""
        table = self.node.table(article.article.name)
        shape = self._shapes.get((article.article_id, operation))
        if shape is None or not shape.fits(article, table):
            shape = self._shapes[article.article_id, operation] = Shape(article, operation, table)
        return ReadCall(shape, text)

    # -- procedures of users -------------------------------------------------------------------------

    def custom(self, article: DistributedArticle, operation: str) -> str | None:
        """Return the custom procedure to call; None for the default one."""
        requested = article.procedure(operation)
        schema = article.article.schema
        names = (
            (requested,)
            if "." in requested
            else (f"{schema}.{requested}", f"public.{requested}", requested)
        )
        return next((name for name in names if name in self.node.procedures), None)

    def raise_error(self, tx: OpenTx, number: int, *more: Any) -> Steps[None]:
        """``msrepl.sp_msreplraiserror``, for custom procedures."""
        command, article = (*more, None, None)[:2]
        raise not_found(command, article, None, None, number)
        yield  # makes this function a generator


def apply_call(
    receiver: Receiver, tx: OpenTx, article: DistributedArticle, operation: str, text: str
) -> Steps[None]:
    """Apply a call as its procedure does."""
    name = receiver.custom(article, operation)
    table = receiver.node.table(article.article.name)
    call = receiver.read(article, operation, text)
    if name is not None:
        given = {f"p{at}": value for at, value in enumerate(call.values)}
        places = ", ".join(f":{each}" for each in given)
        yield from tx.run(f"select {name}({places})", given)
        return
    requested = article.propagation.method(operation).procedure
    if requested is not None:
        raise SqlError("42883", f"function {requested} does not exist")
    if operation == "ins":
        yield from tx.insert(table.name, call.inserted(receiver.node, tx))
        return
    if operation == "upd":
        names_keys = _names_keys(table, article.propagation.method(operation).format)
        done: Any = yield from tx.change(table.name, call.key, call.updated, names_keys=names_keys)
    else:
        done = (yield from tx.delete(table.name, call.key)) or None
    if done is None:
        raise not_found(_COMMAND[operation], article.article.name, call.shown_key, None)


def _names_keys(table: HeapTable, form: Format) -> bool:
    """Return whether the procedure sets a column of a key, even to the old value.

    This is a unique key's column, or with these formats any column.
    """
    primary = frozenset(table.primary.places) if table.primary is not None else frozenset[int]()
    return form in (Format.CALL, Format.XCALL) or not table.key_places <= primary


def not_found(
    command: str | None, article: str | None, key: Mapping[str, Any] | None, statement: str | None,
    number: int = 20598,
) -> SqlError:  # fmt: skip
    """Return error 20598: the row that a call changes does not exist here."""
    named = ", ".join(
        f"{name} = {'NULL' if value is None else output(value)}"
        for name, value in sorted((key or {}).items())
    )
    facts = {
        "kind": "row_missing", "number": number, "command": command, "article": article,
        "key": None if key is None else {name: _json(value) for name, value in key.items()},
        "statement": None if statement is None else statement[:1000],
    }  # fmt: skip
    return SqlError(
        "P0002",
        "the row was not found at the Subscriber when applying the replicated "
        f"{f'{command} ' if command else ''}command{f' for table {article}' if article else ''}"
        f"{f' with primary key {named}' if named else ''} ({number})",
        detail=json.dumps(facts),
        hint="The Subscriber has lost or never had the row: `twopc agent distribution SUBSCRIBER --skip-errors "
        "20598 --once` goes on without the transaction, `twopc validate SUBSCRIBER --repair` mends what is then "
        "missing.",
    )


def _json(value: Any) -> Any:
    return value if value is None or isinstance(value, int | float | bool) else output(value)
