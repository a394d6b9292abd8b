"""The triggers of a subscribed table: they send an application's changes to the Publisher, and stamp row versions.

Implements the effects of
subscriber/sql/{capture_*,stamp_version,fetch_block,fill_generated,fetch_generated,renew_version,write_back,
first_row,close_statement}.sql.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from twopc.sim.model.node import statements
from twopc.sim.model.node.heap import HeapTable
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.replication import pending_rows
from twopc.sim.model.replication.articles import ModelArticle
from twopc.sim.model.replication.behaviour import Behaviour
from twopc.sim.model.replication.calls import Operation, SyncCall
from twopc.sim.model.replication.link import Link
from twopc.sim.model.replication.pending_rows import HeldRow
from twopc.sim.model.replication.shipping import Shipping
from twopc.sim.model.values import RowChange, SqlError, Steps, Values

Answer = Steps[Sequence[RowChange] | None]
#: Greatest size of a block of generated values.
_BLOCK_MAX = 64


class CaptureTriggers:
    """State and functions that the triggers of one Subscriber share."""

    def __init__(
        self, articles: Mapping[str, ModelArticle], shipping: Shipping, behaviour: Behaviour,
        link: Callable[[OpenTx], Link], reach: Callable[[str, OpenTx], Steps[None]],
    ) -> None:  # fmt: skip
        self.articles = articles
        self.shipping = shipping
        self.behaviour = behaviour
        self.link = link
        self.reach = reach

    def send_held(self, tx: OpenTx) -> Steps[None]:
        """Send the held rows, unless a statement is still open."""
        made = pending_rows.calls(
            pending_rows.released(tx, self.link(tx)), self.articles, self.behaviour
        )
        if not made:
            return
        yield from self.shipping.queue(tx, pending_rows.in_message(made))
        taking = any(
            self.articles[one.article].writes_back and one.operation != "del" for one in made
        )
        if not taking and tx.setting("msrepl.shipping") == "lazy":
            return
        for order, result in (yield from self.shipping.flush(tx)):
            if isinstance(order, SyncCall) and result.rows:
                yield from self.write_back(tx, self.articles[order.article], result.rows)

    def write_back(
        self, tx: OpenTx, article: ModelArticle, stored: Iterable[Values]
    ) -> Steps[None]:
        """``trg_mssync_back_<table>``: take over rows stored with other values, in the replica role."""
        taken = self.behaviour.write_back(list(stored))
        if not taken:
            return
        table = tx.node.table(article.name)
        places = [place for place in article.values if not table.columns[place].always]

        def computed(image: Values) -> Callable[[Values], Values]:
            def compute(row: Values) -> Values:
                whole = list(row)
                for place in places:
                    whole[place] = image[place]
                return tx.node.generated(table, tuple(whole))

            return compute

        before, tx.replica = tx.replica, True
        try:
            yield from statements.update(
                tx, table,
                [(article.key_of(image), statements.any_row, computed(image)) for image in taken],
            )  # fmt: skip
        finally:
            tx.replica = before


class Capture:
    """``!trg_mssync_<operation>_<table>``

    Args:
        by_row: whether the user has AFTER ROW triggers, which must not fire before this trigger.
        may_hold: whether foreign keys, deferrable unique keys, or users' BEFORE ROW triggers connect the table's rows
            with others.
        acts: whether referential actions of the statement follow after this trigger.
    """

    def __init__(
        self, name: str, operation: Operation, article: ModelArticle, shared: CaptureTriggers, *, by_row: bool,
        may_hold: bool, acts: bool,
    ) -> None:  # fmt: skip
        self.name = name
        self.when = "after rows" if by_row else "after statement"
        self.operations = frozenset({operation})
        self.fires = shared.behaviour.capture_fires()
        self._operation = operation
        self._article = article
        self._shared = shared
        self._by_row = by_row
        self._may_hold = may_hold
        self._acts = acts

    def fire(self, tx: Any, table: str, changes: Sequence[RowChange]) -> Answer:
        """Send the rows of a statement, or hold them."""
        shared, article, operation = self._shared, self._article, self._operation
        yield from shared.reach("trigger.enter", tx)
        pairs = self._pairs(changes)
        if self._may_hold:
            ends = not self._by_row
            place = pending_rows.leave(tx, table, operation, ends=ends, may_act=self._acts)
            if place:
                rows = [self._held(place, old, new) for old, new in pairs]
                pending_rows.hold(tx, shared.link(tx), rows)
                yield from shared.send_held(tx)
                return None
        if not pairs:
            return None
        call = _call(article, operation, pairs)
        takes_back = article.writes_back and operation != "del"
        stored = yield from shared.shipping.ship(tx, call, at_once=takes_back)
        if stored:
            yield from shared.write_back(tx, article, stored)
        return None

    def _pairs(self, changes: Sequence[RowChange]) -> list[tuple[Values | None, Values | None]]:
        pairs = [(one.old, one.new) for one in changes]
        if self._operation == "upd" and len(pairs) > 1:
            place = self._article.version
            pairs.sort(key=lambda one: str(one[1][place]) if one[1] is not None else "")
        return pairs

    def _held(self, place: int, old: Values | None, new: Values | None) -> HeldRow:
        article = self._article
        old_key = None if old is None else (*article.key_of(old), old[article.version])
        new_key = None if new is None else (*article.key_of(new), new[article.version])
        moved = False
        if old is not None and new is not None:
            moved = any(
                old[article.columns.index(name)] != new[article.columns.index(name)]
                for name in article.targets
            )
        return HeldRow(
            article=article.name, place=place, moved=moved,
            old_link=None if old_key is None else (article.name, *old_key),
            new_link=None if new_key is None else (article.name, *new_key),
            old_key=old_key if new is not None else None,
            old=None if old is None else article.on_its_way(old),
            new=None if new is None else article.on_its_way(new),
        )  # fmt: skip


class Open:
    """``!trg_mssync_open_<table>``: registers the start of a statement."""

    when = "before statement"
    fires = "origin"

    def __init__(self, name: str, operation: Operation) -> None:
        self.name = name
        self.operations = frozenset({operation})
        self._operation = operation

    def fire(self, tx: Any, table: str, changes: Sequence[RowChange]) -> Answer:
        """Register the statement as open."""
        pending_rows.enter(tx, table, self._operation)
        return None
        yield  # makes this function a generator


class Close:
    """``!trg_mssync_end_<operation>_<table>``: ends a statement whose rows were captured by row triggers."""

    when = "after statement"
    fires = "origin"

    def __init__(self, name: str, operation: Operation, shared: CaptureTriggers) -> None:
        self.name = name
        self.operations = frozenset({operation})
        self._operation = operation
        self._shared = shared

    def fire(self, tx: Any, table: str, changes: Sequence[RowChange]) -> Answer:
        """Send the held rows, if this was the last open statement."""
        pending_rows.leave(tx, table, self._operation, ends=True, may_act=True)
        yield from self._shared.send_held(tx)
        return None


class Stamp:
    """``~trg_mssync_ver_<table>``: sets the new version of an updated row."""

    when = "before row"
    operations = frozenset({"upd"})
    fires = "origin"

    def __init__(
        self, name: str, article: ModelArticle, table: HeapTable, behaviour: Behaviour
    ) -> None:
        self.name = name
        self._article = article
        self._behaviour = behaviour
        self._fixed = [
            place for place in article.made if article.table.columns[article.places[place]].always
        ]

    def fire(self, tx: Any, table: str, changes: Sequence[RowChange]) -> Answer:
        """Derive the new version from the old one and the global transaction."""
        change = changes[0]
        old, new, place = change.old, change.new, self._article.version
        assert old is not None
        assert new is not None
        for fixed in self._fixed:
            if old[fixed] != new[fixed]:
                name = self._article.columns[fixed]
                raise SqlError(
                    "428C9",
                    f"identity column {name} of {self._article.name} cannot be updated (20510)",
                )
        version: Any = old[place]
        # a transaction of any client gets its gid only later: use node and transaction id
        salt = tx.setting("msrepl.gid") or f"{tx.node.name} {tx.assign()}"
        row = (*new[:place], self._behaviour.stamp_version(version, salt), *new[place + 1 :])
        return (RowChange(table=table, operation="upd", old=old, new=row),)
        yield  # makes this function a generator


class Renew:
    """``~trg_mssync_new_<table>``: gives an inserted row a version that no other row has had."""

    when = "before row"
    operations = frozenset({"ins"})
    fires = "origin"

    def __init__(self, name: str, article: ModelArticle, births: Callable[[OpenTx], Any]) -> None:
        self.name = name
        self._place = article.version
        self._births = births

    def fire(self, tx: Any, table: str, changes: Sequence[RowChange]) -> Answer:
        """Set a new version, whatever the statement says."""
        new, place = changes[0].new, self._place
        assert new is not None
        row = (*new[:place], self._births(tx), *new[place + 1 :])
        return (RowChange(table=table, operation="ins", old=None, new=row),)
        yield  # makes this function a generator


class Fill:
    """``!trg_mssync_gen_<table>``: fills in values that only the Publisher can generate, from blocks of values."""

    when = "before row"
    operations = frozenset({"ins"})
    fires = "origin"

    def __init__(
        self, name: str, article: ModelArticle, shared: CaptureTriggers,
        fetch: Callable[[OpenTx, str, int], Steps[list[Values]]],
    ) -> None:  # fmt: skip
        self.name = name
        self._article = article
        self._shared = shared
        self._fetch = fetch

    def fire(self, tx: Any, table: str, changes: Sequence[RowChange]) -> Answer:
        """Fill in the missing values of a row."""
        new, article = changes[0].new, self._article
        assert new is not None
        if all(new[place] is not None for place in article.made):
            return None
        setting = f"msrepl.generated_{article.name}"
        link = self._shared.link(tx)
        name, _, taken = (tx.setting(setting) or "").partition(" ")
        block = link.generated.get(name, [])
        used = int(taken or 0)
        if used >= len(block):
            block = yield from self._fetch(tx, article.name, min(len(block) * 2 + 1, _BLOCK_MAX))
            link.numbers += 1
            name, used = str(link.numbers), 0
            link.generated[name] = block
        tx.set(setting, f"{name} {used + 1}", local=True)
        row = list(new)
        for place, value in zip(article.made, block[used], strict=True):
            if row[place] is None:
                row[place] = value
        return (RowChange(table=table, operation="ins", old=None, new=tuple(row)),)


class RefuseTruncate:
    """``trg_mssync_truncate_<table>``, at Publisher and Subscriber: refuses TRUNCATE, which no row trigger captures."""

    when = "before statement"
    operations = frozenset({"tru"})
    fires = "origin"

    def __init__(self, name: str) -> None:
        self.name = name

    def fire(self, tx: Any, table: str, changes: Sequence[RowChange]) -> Answer:
        """Raise SqlError 0A000."""
        raise SqlError(
            "0A000", f"table public.{table} is replicated: TRUNCATE is refused",
            hint="Use DELETE, or drop the article first.",
        )  # fmt: skip
        yield  # makes this function a generator


def _call(
    article: ModelArticle,
    operation: Operation,
    pairs: Sequence[tuple[Values | None, Values | None]],
) -> SyncCall:
    old: list[Values] = []
    new: list[Values] = []
    for before, after in pairs:
        if operation == "upd" and before is not None:
            old.append((*article.key_of(before), before[article.version]))
        elif operation == "del" and before is not None:
            old.append(article.on_its_way(before))
        if operation != "del" and after is not None:
            new.append(article.on_its_way(after))
    return SyncCall(operation=operation, article=article.name, old=tuple(old), new=tuple(new))
