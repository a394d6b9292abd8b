"""Rows that the Publisher stored with other values than sent, and changes that its triggers must not make.

Implements the effects of publisher/sql/{witness,check_touched,stored_rows}.sql. Independent of links.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.replication import facts
from twopc.sim.model.replication.articles import ModelArticle
from twopc.sim.model.replication.facts import Raw
from twopc.sim.model.values import RowChange, Steps, Values

_SYNCING, _TOUCHED = "msrepl.syncing", "msrepl.touched"


class StoredProcedures:
    """The part of the procedures that finds rows stored with other values, for all articles."""

    def watch(self, tx: OpenTx, article: ModelArticle) -> None:
        """Tell the witness the article whose sent rows triggers may change again."""
        if article.writes_back:
            tx.set(_SYNCING, article.name, local=True)

    def rows(self, tx: OpenTx, article: ModelArticle, sent: Sequence[Values]) -> tuple[Values, ...]:
        """Return the published columns of the rows that were stored with other values than sent."""
        if not article.writes_back:
            return ()
        snap = tx.statement()
        kept, stored = 0, []
        for new in sent:
            result = tx.find(article.table, article.key_of_values(new), snap)
            if result is None:
                continue
            kept += 1
            row = result[1].values
            if any(row[there] != new[here] for there, here in article.travels):
                stored.append(article.image(row))
        if kept != len(sent):
            raise facts.conflict(
                "triggered_change", "09000", 20515, article.name, None,
                f"a trigger of the Publisher gave {len(sent) - kept} of {len(sent)} rows of {article.name} "
                "another key, or deleted them",
            )  # fmt: skip
        self._check_touched(tx, article, sent)
        tx.set(_SYNCING, "", local=True)
        return tuple(stored)

    def _check_touched(self, tx: OpenTx, article: ModelArticle, sent: Sequence[Values]) -> None:
        """``msrepl.check_touched``"""
        touched = json.loads(tx.setting(_TOUCHED) or "[]")
        if not touched:
            return
        tx.set(_TOUCHED, "", local=True)
        keys = {article.key_json(article.key_of_values(new)).text for new in sent}
        for key, cause in touched:
            if key not in keys:
                raise facts.triggered(article.name, Raw(key), cause)


class Witness:
    """``sp_mssync_witness_<table>``: sees what triggers change while a Subscriber's change is applied."""

    when = "after row"
    operations = frozenset({"ins", "upd", "del"})
    fires = "origin"

    def __init__(self, name: str, article: ModelArticle) -> None:
        self.name = name
        self._article = article

    def fire(
        self, tx: Any, table: str, changes: Sequence[RowChange]
    ) -> Steps[Sequence[RowChange] | None]:
        """Note a change of a row that was just sent, which goes back with the answer; refuse any other change."""
        if not tx.calls or not self._of_subscriber(tx):
            return None
        article = self._article
        (change,) = changes
        old, new = change.old, change.new
        primary = article.table.primary
        assert primary is not None
        row = old if old is not None else new
        assert row is not None
        key, cause = article.key_json(primary.key(row)), tx.cause or "a trigger"
        same_key = old is not None and new is not None and primary.key(old) == primary.key(new)
        if not same_key or tx.setting(_SYNCING) != article.name:
            raise facts.triggered(article.name, key, cause)
        touched = [*json.loads(tx.setting(_TOUCHED) or "[]"), (key.text, cause)]
        tx.set(_TOUCHED, json.dumps(touched), local=True)
        return None
        yield  # makes this function a generator

    def _of_subscriber(self, tx: OpenTx) -> bool:
        """Return whether this transaction has written a branch marker."""
        return any(
            table.name == "msrepl.branch_marker" and operation == "ins"
            for table, operation, _, _ in tx.top.changes
        )
