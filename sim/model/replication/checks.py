"""Checks of the Publisher's procedures before and after applying rows, and their refusals.

Implements the effects of `twopc.publisher.pieces` and of publisher/sql/{await_branches,check_children}.sql. The
checks change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from twopc.sim.model.node import constraints, statements
from twopc.sim.model.node.modes import ROW_EXCLUSIVE
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.replication import facts, versions
from twopc.sim.model.replication.articles import ACTS, ModelArticle
from twopc.sim.model.replication.behaviour import Behaviour
from twopc.sim.model.replication.calls import SyncCall
from twopc.sim.model.replication.facts import Raw
from twopc.sim.model.values import SqlError, Steps, Values


class Checks:
    """The checks for all articles."""

    def __init__(self, articles: Mapping[str, ModelArticle], behaviour: Behaviour) -> None:
        self._articles = articles
        self._behaviour = behaviour

    # -- earlier branches ----------------------------------------------------------------------------

    def await_branches(self, tx: OpenTx, tables: Iterable[str]) -> Steps[None]:
        """``msrepl.await_branches``: wait until prepared branches of the same Subscriber here have ended."""
        if not self._behaviour.await_branches():
            return
        requested = set(tables)
        before = [
            branch
            for branch in tx.node.prepared_by(tx.session_user)
            if any(
                mode & ROW_EXCLUSIVE and name in requested
                for name, mode in branch.top.tables.items()
            )
        ]
        for branch in before:
            tx.assign()
            try:
                yield from tx.wait_for(branch.xid, "msrepl.branch_marker")
            except SqlError as error:
                if error.sqlstate != "55P03":
                    raise
                raise facts.conflict(
                    "lock_timeout", "55P03", 0, None, None,
                    f"what this change builds on may be in branch {branch.gid}, which was not finished within "
                    f"{tx.session.lock_timeout_s:g}s",
                ) from error  # fmt: skip

    # -- rows of the Publisher -----------------------------------------------------------------------

    def _held(self, tx: OpenTx, article: ModelArticle, key: Values) -> Values | None:
        """Return the row with a key, whether or not it is in the Subscriber's partition."""
        result = tx.find(article.table, key, tx.statement())
        return result[1].values if result is not None else None

    def _shown(
        self, tx: OpenTx, article: ModelArticle, row: Values | None
    ) -> tuple[Any, Raw | None]:
        """Return version and image of a row, if it is in the Subscriber's partition."""
        if row is None or not article.has(row, tx.session_user):
            return None, None
        return row[article.version_there], article.image_json(row)

    def only_key(self, article: ModelArticle, call: SyncCall) -> Raw | None:
        """Return the key of the sent row, as the Subscriber knows it; None if several rows were sent."""
        rows = call.old or call.new
        if len(rows) != 1:
            return None
        if call.operation == "ins":
            return article.key_json(article.key_of_values(rows[0]))
        return article.key_json(article.old_key(call.operation, rows[0]))

    def same(self, article: ModelArticle, old: Values) -> Callable[[Values], bool]:
        """Return a predicate: whether a row still has every published value that was sent, apart from the key."""
        check, places = self._behaviour.delete_check, article.compared
        sent = [old[here] for _, here in places]
        return lambda row: check([row[there] for there, _ in places], sent)

    # -- refusals ------------------------------------------------------------------------------------

    def mismatched_update(
        self, tx: OpenTx, article: ModelArticle, call: SyncCall, done: int
    ) -> SqlError:
        """Return the error for an UPDATE that missed rows, with facts about the first of them."""
        sent, version = len(call.old), article.version_there
        key = sent_version = held_version = image = None
        for old, new in zip(call.old, call.new, strict=True):
            now = self._held(tx, article, article.key_of_values(new))
            brought: Any = new[article.version_sent]
            if now is not None and now[version] in (brought, versions.derived(brought, tx.xid)):
                continue
            key, sent_version = article.key_json(old[:-1]), old[-1]
            held_version, image = self._shown(tx, article, self._held(tx, article, old[:-1]))
            break
        if sent_version is not None and sent_version == held_version:
            return self._suppressed(article, call, done, "updated", key, sent_version, image)
        return facts.conflict(
            "row_missing" if held_version is None else "version_mismatch",
            "40001", 20515, article.name, key,
            f"rows of {article.name} do not match between Publisher and Subscriber: {sent - done} of {sent} "
            "rows of the UPDATE were refused",
            sent=sent_version, held=held_version, image=image,
        )  # fmt: skip

    def mismatched_delete(
        self, tx: OpenTx, article: ModelArticle, call: SyncCall, done: int
    ) -> SqlError:
        """Return the error for a DELETE that missed rows.

        A row that still exists is stale. If none does and several rows were sent, the missing row cannot be
        determined.
        """
        sent = len(call.old)
        key = sent_version = held_version = image = None
        for old in call.old:
            there = article.key_of_values(old)
            result = self._shown(tx, article, self._held(tx, article, there))
            if result[0] is not None or sent == 1:
                key, sent_version = article.key_json(there), old[article.version_sent]
                held_version, image = result
                break
        for old in call.old:
            row = self._held(tx, article, article.key_of_values(old))
            if row is not None and self.same(article, old)(row):
                return self._suppressed(article, call, done, "deleted", key, sent_version, image)
        return facts.conflict(
            "row_missing" if held_version is None else "delete_stale",
            "40001", 20515, article.name, key,
            f"rows of {article.name} do not match between Publisher and Subscriber: {sent - done} of {sent} "
            "rows of the DELETE were refused",
            sent=sent_version, held=held_version, image=image,
        )  # fmt: skip

    def _suppressed(
        self, article: ModelArticle, call: SyncCall, done: int, verb: str, key: Raw | None, version: Any,
        image: Raw | None,
    ) -> SqlError:  # fmt: skip
        sent = len(call.old)
        return facts.conflict(
            "suppressed", "09000", 20515, article.name, key,
            f"a trigger of the Publisher kept {sent - done} of {sent} rows of {article.name} from being {verb}",
            sent=version, held=version, image=image,
        )  # fmt: skip

    def clash(self, tx: OpenTx, article: ModelArticle, call: SyncCall, error: SqlError) -> SqlError:
        """Return the error for a violated unique key: with the conflicting row, and all violated constraints."""
        result = self._clashes(tx, article, call)
        best = max(result.values(), key=lambda one: len(one[0]), default=None)
        names, key, sent, held, image = best or ([error.constraint], None, None, None, None)
        names = sorted(set(names))
        if call.operation == "ins":
            kind, lines = (
                "insert_exists",
                f"a row of {article.name} with the same key is at the Publisher already",
            )
        else:
            kind, lines = (
                "update_exists",
                f"the UPDATE gives a row of {article.name} a key that is taken at the Publisher",
            )
        return facts.conflict(
            "multiple_unique" if len(names) > 1 else kind, "23505", 20515, article.name,
            key or self.only_key(article, call), f"{lines} ({', '.join(names)})",
            sent=sent, held=held, image=image, constraints=names,
        )  # fmt: skip

    def _clashes(
        self, tx: OpenTx, article: ModelArticle, call: SyncCall
    ) -> dict[Values, tuple[list[str], Raw, Any, Any, Raw | None]]:
        """Return, by key of the sent row: constraints, the key, both versions, the first conflicting row."""
        snap = tx.statement()
        update = call.operation == "upd"
        own = {old[:-1] for old in call.old} if update else set()
        primary = article.table.primary
        assert primary is not None
        results: dict[Values, tuple[list[str], Raw, Any, Any, Raw | None]] = {}
        for index in sorted(article.table.indexes, key=lambda one: one.name):
            places = [article.sent_at.get(place) for place in index.places]
            if index.where is not None or None in places:
                continue
            for at, new in enumerate(call.new):
                value = tuple([new[place] for place in places if place is not None])
                if None in value:
                    continue
                for row in statements.seen(tx, article.table, index, value, snap):
                    if primary.key(row) in own:
                        continue
                    key = call.old[at][:-1] if update else article.key_of_values(new)
                    sent = call.old[at][-1] if update else new[article.version_sent]
                    if key in results:
                        results[key][0].append(index.name)
                    else:
                        results[key] = (
                            [index.name],
                            article.key_json(key),
                            sent,
                            *self._shown(tx, article, row),
                        )
        return results

    # -- forbidden effects ---------------------------------------------------------------------------

    def partition(self, tx: OpenTx, article: ModelArticle, rows: Iterable[Values]) -> None:
        """Refuse rows that are now outside the article's row filter: error 21034 of the original."""
        if article.filter is None and not article.parts:
            return
        for new in rows:
            key = article.key_of_values(new)
            row = self._held(tx, article, key)
            if row is not None and not article.has(row, tx.session_user):
                shown = [article.filter_text] if article.filter is not None else []
                if article.parts:
                    shown.append("the row filter of its subscription")
                raise facts.conflict(
                    "not_in_partition", "23514", 21034, article.name, article.key_json(key),
                    f"a row of {article.name} would be outside the partition of this Subscriber: "
                    f"{', '.join(shown)}",
                )  # fmt: skip

    def children(self, tx: OpenTx, article: ModelArticle, call: SyncCall) -> Steps[None]:
        """Refuse a change if a referential action would change rows here that the Subscriber did not send.

        The Subscriber sends children first, so rows that still refer to a sent row are unknown to the Subscriber.
        """
        for key in article.referenced:
            action = key.on_delete if call.operation == "del" else key.on_update
            if action in ACTS:
                yield from self._children_of(tx, article, call, key)

    def _children_of(
        self, tx: OpenTx, article: ModelArticle, call: SyncCall, key: constraints.ModelForeignKey
    ) -> Steps[None]:
        keys = [article.old_key(call.operation, old) for old in call.old]
        sent = set(keys)
        concerned = []
        for at, one in enumerate(keys):
            row = self._held(tx, article, one)
            if row is not None and (
                call.operation == "del" or self._moves(article, key, row, call.new[at])
            ):
                concerned.append(one)
        yield from statements.lock(tx, article.table, concerned)
        snap = tx.statement()
        for one in concerned:
            result = tx.find(article.table, one, snap)
            if result is None:
                continue
            for child, version in constraints.children(
                tx, key, key.index.key(result[1].values), snap
            ):
                primary = child.table.primary
                if key.child is article.table and primary.key(version.values) in sent:
                    continue
                raise facts.conflict(
                    "fk_violation", "23503", 20515, article.name, None,
                    f"rows of {key.child.name} that the Subscriber does not hold refer to rows of {article.name} "
                    f"({key.name})",
                    constraints=[key.name],
                )  # fmt: skip

    def _moves(
        self, article: ModelArticle, key: constraints.ModelForeignKey, row: Values, new: Values
    ) -> bool:
        """Return whether an update changes columns to which a foreign key refers."""
        return any(row[place] != new[article.sent_at[place]] for place in key.index.places)
