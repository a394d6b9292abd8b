"""Check for lost updates: changes based on a row that had meanwhile changed at the Publisher."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twopc.sim.checkers.records import NONE, Numbers, Settings, commits, versions
from twopc.sim.report.history import HistoryRecord

_Rows = dict[tuple[str, str], str]  # table and key → version


def no_lost_update(records: Sequence[HistoryRecord], settings: Settings = NONE) -> list[str]:
    """Return the changes that a Subscriber made to rows of which the Publisher had another version.

    Only row versions are compared, before and after the commit, at both nodes. A row that a trigger changes only at
    the Publisher is no change of the Subscriber.
    """
    held: dict[str, _Rows] = {}
    broken: list[str] = []
    publisher = next((record.node for record in records if record.kind == "state"), "")
    numbers = Numbers(records)
    for commit, looks in commits(records):
        if commit is not None and commit.node != publisher:
            for node in dict.fromkeys(look.node for look in looks):
                if node != publisher:
                    broken += _lost(commit, node, held, looks, publisher, numbers)
        for look in looks:
            _note(held, look)
    return broken


def _note(held: dict[str, _Rows], look: HistoryRecord) -> None:
    table = str((look.data or {})["table"])
    kept = {place: v for place, v in held.get(look.node, {}).items() if place[0] != table}
    held[look.node] = {**kept, **{(table, key): v for key, v in versions(look).items()}}


def _lost(
    commit: HistoryRecord,
    node: str,
    held: dict[str, _Rows],
    looks: Sequence[HistoryRecord],
    publisher: str,
    numbers: Numbers,
) -> Iterator[str]:
    after = {node: dict(rows) for node, rows in held.items()}
    for look in looks:
        _note(after, look)
    own, other = held.get(node, {}), held.get(publisher, {})
    now_mine, now_theirs = after.get(node, {}), after.get(publisher, {})
    for place in dict.fromkeys((*other, *now_theirs)):
        both = own.get(place) != now_mine.get(place) and other.get(place) != now_theirs.get(place)
        if both and own.get(place) != other.get(place):
            table, key = place
            mine_was, theirs_was = (
                numbers.label(table, key, rows.get(place)) for rows in (own, other)
            )
            yield (
                f"{commit.session} ({commit.step}) changed {table} {key} from {mine_was} at "
                f"{node}, while {publisher} had {theirs_was}: that change is lost"
            )
