"""What PostgreSQL is free to choose: which session of a deadlock is its victim, and which serializable transaction is
refused.

The victim of a deadlock is whoever looks first, once `deadlock_timeout` has passed: a matter of milliseconds. Which of
several serializable transactions is refused, and at which statement, depends on plans too. Two plays that differ in
nothing else agree. Pure functions of the records.
"""

from __future__ import annotations

from collections.abc import Sequence

from twopc.sim.report.history import HistoryRecord

#: By the kind of refusal, what is chosen.
_CHOSEN = {
    "deadlock": "the victim of a deadlock",
    "serialization_failure": "which serializable transaction it refuses",
}
#: In the message of what only SERIALIZABLE refuses; a row that is changed already is refused to whoever is second.
_DEPENDENCIES = "read/write dependencies"


def chosen(records: Sequence[HistoryRecord]) -> dict[str, dict[str, str]]:
    """By kind of refusal the steps of one order, with their sessions, that were refused where others might have been."""
    order = next((each.data or {} for each in records if each.kind == "order"), {})
    serializable = {
        name
        for name, node in (order.get("sessions") or {}).items()
        if (order.get("isolation") or {}).get(node) == "serializable"
    }
    own = {each.step for each in records if each.kind == "deadlock"}  # those are told who it is
    results: dict[str, dict[str, str]] = {}
    for each in records:
        kind = str((each.conflict or {}).get("kind"))
        if each.kind != "rejected" or kind not in _CHOSEN or each.step in own:
            continue
        if kind == "deadlock" or (each.session in serializable and _DEPENDENCIES in each.message):
            results.setdefault(kind, {})[each.step] = each.session
    return results


def note(records: Sequence[HistoryRecord]) -> str:
    """That an order came to something that PostgreSQL may choose otherwise; empty if it did not."""
    return "; ".join(f"PostgreSQL may choose either: {_CHOSEN[kind]}" for kind in chosen(records))


def either(one: Sequence[HistoryRecord], other: Sequence[HistoryRecord]) -> str:
    """What two plays of an order chose differently, in words; empty if they chose alike, or not among the same."""
    own, others = chosen(one), chosen(other)
    for kind in own.keys() & others.keys():
        here, there = own[kind], others[kind]
        if here.keys() == there.keys() or len(here) != len(there):
            continue
        if kind == "deadlock" and not (
            {*there.values()} <= _waiting(one) and {*here.values()} <= _waiting(other)
        ):
            continue
        return f"{_CHOSEN[kind]}: {', '.join(here)}, or {', '.join(there)}"
    return ""


def _waiting(records: Sequence[HistoryRecord]) -> set[str]:
    """The sessions that waited, and those for which they did."""
    waits = [each for each in records if each.kind == "blocked"]
    return {each.session for each in waits} | {
        str((each.wait or {}).get("session")) for each in waits
    }
