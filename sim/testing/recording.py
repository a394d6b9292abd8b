"""Recording of a test's history, in the records from which every report is made."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from twopc.errors import (
    ConflictError,
    DeadlockError,
    InDoubtError,
    TransactionError,
    conflict_facts,
)
from twopc.sim.report.history import SCHEMA, HistoryRecord
from twopc.sim.testing.blame import report_of


class Recorder:
    """Collects records; created and used on one event loop.

    Args:
        test: the test's name, in place of a scenario's.
        nodes: the Publisher first.
    """

    def __init__(self, test: str, nodes: Sequence[str]) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._test = test
        self._nodes = tuple(nodes)
        self._sessions: dict[str, str] = {}
        self._records: list[HistoryRecord] = []

    def session(self, name: str, node: str) -> None:
        """Register a session, which acts from now on."""
        self._sessions[name] = node

    @property
    def nodes(self) -> Mapping[str, str]:
        """Node of each session; empty if unknown."""
        return self._sessions

    def write(self, kind: str, **fields: Any) -> None:
        """Append a record; see `twopc.sim.report.history.KINDS`."""
        self._records.append(
            HistoryRecord(
                seq=len(self._records) + 2,
                t_us=round((self._loop.time() - self._began) * 1_000_000),
                kind=kind,
                order=self._test,
                **fields,
            )
        )

    def clear(self) -> None:
        """Delete all records, before another order begins."""
        self._records.clear()
        self._sessions.clear()
        self._began = self._loop.time()

    @property
    def records(self) -> list[HistoryRecord]:
        """Complete history of the test so far, header included."""
        header = {
            "schema": SCHEMA,
            "scenario": self._test,
            "file": self._test,
            "publisher": self._nodes[0],
            "subscribers": list(self._nodes[1:]),
            "on": "postgres",
        }
        order = {"sessions": dict(self._sessions)}
        return [
            HistoryRecord(seq=0, t_us=0, kind="header", data=header),
            HistoryRecord(seq=1, t_us=0, kind="order", order=self._test, data=order),
            *self._records,
        ]


def failed(error: BaseException, gid: str) -> tuple[str, dict[str, Any]]:
    """Return kind and fields of the record of a failed step."""
    fields: dict[str, Any] = {"gid": gid, "message": str(error).strip()}
    if isinstance(error, InDoubtError):
        return "in_doubt", fields
    if not isinstance(error, TransactionError):
        text = report_of(error)
        fields["sqlstate"] = text.sqlstate
        if text.message:
            fields["message"] = text.message
        refusal = conflict_facts(text.detail)
        if refusal is not None:  # reported to a client without a coordinator
            return "rejected", fields | {"conflict": refusal}
        return "error", fields
    fields |= {"sqlstate": error.sqlstate, "number": error.number, "gid": error.gid or gid}
    kind = getattr(error, "kind", "error")
    if kind == "error":
        return "error", fields
    facts: Mapping[str, Any] = error.facts if isinstance(error, ConflictError) else {}
    fields["conflict"] = {**facts, "kind": kind}
    if isinstance(error, DeadlockError) and error.cycle:
        fields["data"] = {"cycle": list(error.cycle)}
    return "rejected", fields
