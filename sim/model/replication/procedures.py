"""The Publisher's procedures: they apply a Subscriber's rows if the rows have not changed since it received them.

Implements the effects of
publisher/sql/{sync_procedure,change_insert,change_update,change_delete,defer_keys,generated_values}.sql. Further
checks are in `checks`, returned rows in `stored_values`. Independent of links.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast
from uuid import UUID

from twopc.sim.model.node import statements
from twopc.sim.model.node.constraints import ModelForeignKey
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.replication import facts
from twopc.sim.model.replication.articles import ModelArticle
from twopc.sim.model.replication.behaviour import Behaviour
from twopc.sim.model.replication.calls import DeferKeys, GenerateCall, Procedure, SyncCall
from twopc.sim.model.replication.checks import Checks
from twopc.sim.model.replication.stored_values import StoredProcedures
from twopc.sim.model.values import SqlError, StatementResult, Steps, Values

#: unique_violation and exclusion_violation.
_TAKEN = ("23505", "23P01")
_FOREIGN_KEY = "23503"

Plan = Callable[..., Steps[StatementResult]]


class ModelProcedures:
    """The procedures of all articles.

    Args:
        articles: by name.
        reach: performs the faults of a protocol point, in a transaction.
    """

    def __init__(
        self, articles: Mapping[str, ModelArticle], behaviour: Behaviour,
        reach: Callable[[str, OpenTx], Steps[None]],
    ) -> None:  # fmt: skip
        self._articles = articles
        self._behaviour = behaviour
        self._reach = reach
        self._checks = Checks(articles, behaviour)
        self._stored = StoredProcedures()
        self._of = {"ins": self.insert, "upd": self.update, "del": self.delete}

    def plan(self, order: Procedure) -> Plan:
        """Return a statement for `twopc.sim.model.node.session.NodeSession.execute`, whose rows are sent back."""

        def run(tx: OpenTx, params: Mapping[str, Any]) -> Steps[StatementResult]:
            rows: tuple[Values, ...] = ()
            if isinstance(order, DeferKeys):
                yield from self.defer_keys(tx, defer=order.defer)
            elif isinstance(order, GenerateCall):
                rows = self.generated(tx, order)
            else:
                rows = yield from self.apply(tx, order)
            return StatementResult(tag="CALL", rows=rows)

        return run

    def apply(self, tx: OpenTx, call: SyncCall) -> Steps[tuple[Values, ...]]:
        """Execute a call, and return the rows that were stored with other values than sent."""
        article = self._articles[call.article]
        if call.branch and self._behaviour.publisher_marker():
            marker = (
                call.branch, tx.assign(), list(call.sites),
                self._behaviour.marker(tx.session_user),
            )  # fmt: skip
            yield from tx.insert("msrepl.branch_marker", marker)
        yield from self._reach("proc.before_compare", tx)
        if call.operation != "ins" and self._behaviour.children_check():
            yield from self._checks.children(tx, article, call)
        if call.operation != "del":
            self._stored.watch(tx, article)
        tx.applying = True
        try:
            yield from self._of[call.operation](tx, article, call)
        finally:
            tx.applying = False
        rows: tuple[Values, ...] = ()
        if call.operation != "del":
            if self._behaviour.partition_check():
                self._checks.partition(tx, article, call.new)
            rows = self._stored.rows(tx, article, call.new)
        yield from self._reach("proc.after_apply", tx)
        return rows

    # -- the three operations ------------------------------------------------------------------------

    def insert(self, tx: OpenTx, article: ModelArticle, call: SyncCall) -> Steps[None]:
        """``sp_mssync_ins_<table>``"""
        sent, waited = len(call.new), False
        while True:
            try:
                with block(tx):
                    stored = yield from statements.insert(
                        tx, article.table, [_whole(tx, article, new) for new in call.new]
                    )
                    break
            except SqlError as error:
                waited = yield from self._failed(tx, article, call, error, waited=waited)
        done = len(stored)
        if not self._behaviour.all_counted(done, sent):
            raise facts.conflict(
                "suppressed", "09000", 20515, article.name, self._checks.only_key(article, call),
                f"a trigger of the Publisher kept {sent - done} of {sent} rows from being inserted into "
                f"{article.name}",
            )  # fmt: skip

    def update(self, tx: OpenTx, article: ModelArticle, call: SyncCall) -> Steps[None]:
        """``sp_mssync_upd_<table>``"""
        changes = [
            self._change(tx, article, old, new) for old, new in zip(call.old, call.new, strict=True)
        ]
        done = yield from self._until_counted(
            tx,
            article,
            call,
            # the procedure's UPDATE sets every column, keys among them
            lambda: statements.update(tx, article.table, changes, names_keys=True),
        )
        if not self._behaviour.all_counted(done, len(changes)):
            raise self._checks.mismatched_update(tx, article, call, done)

    def delete(self, tx: OpenTx, article: ModelArticle, call: SyncCall) -> Steps[None]:
        """``sp_mssync_del_<table>``"""
        requested = [
            (article.key_of_values(old), self._checks.same(article, old)) for old in call.old
        ]
        done = yield from self._until_counted(
            tx, article, call, lambda: statements.delete(tx, article.table, requested)
        )
        if not self._behaviour.all_counted(done, len(requested)):
            raise self._checks.mismatched_delete(tx, article, call, done)

    def _until_counted(
        self,
        tx: OpenTx,
        article: ModelArticle,
        call: SyncCall,
        act: Callable[[], Steps[list[Values]]],
    ) -> Steps[int]:
        """Execute an operation, repeat it after locking the rows, and again after waiting for earlier branches.

        If a branch is committed at the Subscriber and still prepared here, the first statement does not wait: its
        snapshot filters out the rows before any lock is met.

        Returns:
            The number of changed rows.
        """
        sent, kept, done, waited = len(call.old), 0, 0, False
        counted = self._behaviour.all_counted
        while True:
            try:
                with block(tx):
                    done = kept + len((yield from act()))
                    if not counted(done, sent) and self._behaviour.recheck():
                        keys = [article.old_key(call.operation, old) for old in call.old]
                        yield from statements.lock(tx, article.table, keys)
                        done += len((yield from act()))
                    if counted(done, sent) or waited:
                        return done
                    yield from self._checks.await_branches(tx, article.tied)
                    waited, kept = True, done
            except SqlError as error:
                waited = yield from self._failed(tx, article, call, error, waited=waited)

    def _failed(
        self, tx: OpenTx, article: ModelArticle, call: SyncCall, error: SqlError, *, waited: bool
    ) -> Steps[bool]:
        """Handle a violated constraint; wait for earlier branches if these may end the violation."""
        if (
            error.sqlstate in _TAKEN
            and call.operation != "del"
            and not error.detail.startswith("{")
        ):
            raise self._checks.clash(tx, article, call, error) from error
        if error.sqlstate != _FOREIGN_KEY or error.detail.startswith("{"):
            raise error
        if waited:
            more = f" ({error.detail})" if error.detail else ""
            raise facts.conflict(
                "fk_violation", "23503", 20515, article.name, self._checks.only_key(article, call),
                error.message + more, constraints=[error.constraint],
            ) from error  # fmt: skip
        yield from self._checks.await_branches(tx, article.tied)
        return True

    def _change(
        self, tx: OpenTx, article: ModelArticle, old: Values, new: Values
    ) -> statements.Change:
        version: Any
        place, version = article.version_there, old[-1]
        check, table, settable = self._behaviour.version_check, article.table, article.settable

        def compute(row: Values) -> Values:
            whole = list(row)
            for there, here in settable:
                whole[there] = new[here]
            return tx.node.generated(table, tuple(whole))

        when = self._behaviour.after_wait(lambda row: check(_uuid(row[place]), version))
        return old[:-1], when, compute

    # -- foreign keys and generated values -----------------------------------------------------------

    def defer_keys(self, tx: OpenTx, *, defer: bool) -> Steps[None]:
        """Defer the foreign keys between published tables, or check them.

        If a check fails, rows of an earlier branch may be missing: wait for such branches and check again.
        """
        keys = self._keys()
        for key in keys:
            tx.deferring[key.name] = defer
        if defer:
            return
        checks = [one for one in tx.top.deferred if getattr(one, "key", None) in keys]
        try:
            with block(tx):
                for check in checks:
                    yield from check.fire(tx)
        except SqlError as error:
            if error.sqlstate != _FOREIGN_KEY:
                raise
            yield from self._checks.await_branches(tx, [*self._articles])
            for check in checks:
                yield from check.fire(tx)
        tx.top.deferred[:] = [one for one in tx.top.deferred if one not in checks]

    def _keys(self) -> list[ModelForeignKey]:
        return [
            key
            for article in self._articles.values()
            for key in article.references
            if key.deferrable and not key.deferred
        ]

    def generated(self, tx: OpenTx, order: GenerateCall) -> tuple[Values, ...]:
        """``sp_mssync_gen_<table>``: return a block of values that only the Publisher can generate."""
        article = self._articles[order.article]
        made = [article.table.columns[place] for place in article.made_there]
        return tuple(
            tuple([tx.node.default(tx, article.table, column) for column in made])
            for _ in range(order.size)
        )


@contextmanager
def block(tx: OpenTx) -> Generator[None]:
    """``begin … exception``: undo the block on an error, and raise the error outside the block."""
    tx.savepoint("")
    sub = tx.sub
    try:
        yield
    except SqlError as error:
        if error.sqlstate not in ("57014", "57P01"):
            while tx.sub is not sub.parent:
                tx.drop()
        raise
    tx.release("")


def _uuid(value: Any) -> UUID:
    return cast("UUID", value)


def _whole(tx: OpenTx, article: ModelArticle, new: Values) -> Values:
    """Return a row of the table, built from the values that were sent."""
    table = article.table
    row = [
        tx.node.default(tx, table, column) if here is None else new[here]
        for column, here in article.sources
    ]
    return tx.node.generated(table, tuple(row))
