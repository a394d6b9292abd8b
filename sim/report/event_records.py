"""Conversion of a history's records into events; only this module compares a record's kind and reads its data.

Code that only passes records on keeps them as records: `twopc.sim.report.history` and `twopc.sim.report.run_files`,
which read and write them, and `twopc.sim.report.groups` and `twopc.sim.report.recorded_orders`, which divide a run
into its orders.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from twopc.sim.report import events
from twopc.sim.report.events import HistoryEvent
from twopc.sim.report.history import HistoryRecord

_CLASSES: Mapping[str, type[HistoryEvent]] = {
    "order": events.OrderStart,
    "end": events.OrderEnd,
    "verdict": events.OrderJudgement,
    "group": events.GroupTally,
    "twin_skipped": events.SkippedTwin,
    "infeasible": events.InfeasibleOrder,
    "stuck": events.Standstill,
    "info": events.Remark,
    "invoke": events.StepStart,
    "ok": events.StepSuccess,
    "explain": events.AuthorNote,
    "rejected": events.StepRefusal,
    "error": events.StepError,
    "in_doubt": events.DoubtfulStep,
    "rolled_back": events.StepRollback,
    "skipped": events.UnsentStep,
    "timed_out": events.StepTimeout,
    "queued": events.QueuedStep,
    "blocked": events.WaitStart,
    "unblocked": events.WaitEnd,
    "waited": events.WaitAnswer,
    "deadlock": events.Deadlock,
    "notice": events.NoticeArrival,
    "outcome": events.SessionOutcome,
    "deliver": events.AgentDelivery,
    "suppress": events.PassedTransaction,
    "skip": events.SkippedTransaction,
    "merge_session": events.MergeSessionEnd,
    "merge_conflict": events.ConflictNote,
    "settled": events.BranchSettlement,
    "state": events.TableLook,
    "uncommitted": events.UncommittedRows,
    "prepared": events.PreparedBranches,
    "markers": events.BranchMarkers,
    "query": events.QueryAnswer,
    "outage": events.Outage,
    "paused": events.Pause,
    "backup": events.Backup,
    "fault": events.FaultEffect,
    "drew": events.LoadParameters,
    "load": events.LoadFigures,
}
#: Keys of data that differ from the names of Boolean fields.
_KEYS = {
    "has_committed": "committed",
    "has_versions": "versions",
    "is_blocked": "blocked",
    "is_on": "on",
    "is_restored": "restored",
}
#: Fields that contain all of a record's data.
_WHOLE = frozenset({"labels", "verdict", "counts", "parameters", "figures"})


def _sources(kind: type[HistoryEvent]) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the fields of an event class that are fields of a record, and the others with their keys in the data."""
    of_record = {each.name for each in dataclasses.fields(HistoryRecord)}
    names = [each.name for each in dataclasses.fields(kind)]
    others = [(name, _KEYS.get(name, name)) for name in names if name not in of_record]
    return [name for name in names if name in of_record], others


_EVERY: Sequence[type[HistoryEvent]] = (HistoryEvent, *_CLASSES.values())
_SOURCES = {kind: _sources(kind) for kind in _EVERY}


E = TypeVar("E", bound=HistoryEvent)


def event_of(record: HistoryRecord) -> HistoryEvent:
    """Return the event that a record describes; fields without a value have their defaults."""
    kind, data = _CLASSES.get(record.kind, HistoryEvent), record.data or {}
    own, others = _SOURCES[kind]
    fields = {name: value for name in own if (value := getattr(record, name)) is not None}
    for name, key in others:
        value = data if name in _WHOLE else data.get(key)
        if value is not None:
            fields[name] = value
    return kind(**fields)


def select(records: Iterable[HistoryRecord], kind: type[E]) -> Iterator[E]:
    """Yield the events of one class among records of any kind."""
    for record in records:
        if issubclass(_CLASSES.get(record.kind, HistoryEvent), kind):
            event = event_of(record)
            assert isinstance(event, kind)
            yield event


def header_of(records: Sequence[HistoryRecord]) -> Mapping[str, Any]:
    """Return the data of a run's header record; empty if the run has none."""
    return records[0].data or {} if records and records[0].kind == "header" else {}


def is_load(records: Sequence[HistoryRecord]) -> bool:
    """Return whether the records are those of a load.

    A load has so many concurrent clients that no two runs of it are alike, and no diagram can show it.
    """
    return next(select(reversed(records), events.LoadFigures), None) is not None
