"""Checks of atomicity: a global transaction commits at all its nodes or at none, and no branch stays prepared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twopc.names import BranchId, further_branch, node_of
from twopc.sim.checkers.records import NONE, Settings, left_by, of_kind
from twopc.sim.report.history import HistoryRecord

_WRITES = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "COPY"})


def atomic(records: Sequence[HistoryRecord], settings: Settings = NONE) -> list[str]:
    """Return the global transactions that took effect at some participants only, or not as their client was told.

    A branch writes its own marker row, so the marker exists exactly at the nodes where the branch committed. A
    fence is no branch, and a read-only participant has no marker.
    """
    committed: dict[str, dict[str, Mapping[str, Any]]] = {}  # global id → branch → its marker
    for record in of_kind(records, "markers"):
        for marker in (record.data or {}).get("markers", ()):
            branch = BranchId.parse(str(marker["gid"]))
            if branch is None or marker.get("fence"):
                continue
            sites = committed.setdefault(str(branch.global_id), {})
            sites[branch.branch] = marker
    nodes = {record.node for record in of_kind(records, "markers")}
    wrote, left = _wrote(records), left_by(records)
    broken = []
    for gid, sites in committed.items():
        missing = {
            each
            for each in _missing(sites, wrote.get(gid, set()))
            if node_of(each) in nodes and not left.intersection(each.split("/"))
        }
        if missing:
            broken.append(f"{gid} took effect at {_joined(sites)} and not at {_joined(missing)}")
    report = {record.gid for record in records if (record.data or {}).get("committed")}
    refused_for_nothing = committed.keys() - report
    nowhere = {gid for gid in wrote.keys() - committed.keys() if not wrote[gid] & left}
    for record in records:
        who = f"{record.session} ({record.step})"
        if record.kind in ("rejected", "rolled_back") and record.gid in refused_for_nothing:
            at = _joined(committed[record.gid])
            broken.append(f"{record.gid} was refused to {who} and yet took effect at {at}")
        if (record.data or {}).get("committed") and record.gid in nowhere:
            broken.append(f"{record.gid} was committed for {who} and took effect nowhere")
    return broken


def _missing(sites: Mapping[str, Mapping[str, Any]], wrote: set[str]) -> set[str]:
    """Return the branches that should exist because others do, or because rows were changed at their nodes.

    A marker names all branches, including those without changes; the first one is the Publisher's branch of the
    Subscriber to which the marker belongs.
    """
    expected: set[str] = set()
    for branch, marker in sites.items():
        names: Sequence[str] = marker.get("participants") or (branch,)
        expected |= wrote & set(names)
        if branch == names[0]:
            expected.add(_sender(branch, names))
        elif marker.get("sent", True):
            expected.add(names[0])
    return expected - set(sites)


def _sender(branch: str, names: Sequence[str]) -> str:
    """Return the Subscriber whose changes are in a Publisher's branch, or else the branch itself."""
    _, slash, of = branch.partition("/")
    alone = (
        name
        for name in names
        if name != branch and "/" not in name and further_branch(branch, name) not in names
    )
    return of if slash else next(alone, branch)


def _wrote(records: Sequence[HistoryRecord]) -> dict[str, set[str]]:
    """Return the nodes at which rows were changed, by global transaction.

    Transactions that rolled back anything are left out.
    """
    wrote: dict[str, set[str]] = {}
    done = [record for record in of_kind(records, "ok") if record.gid]
    for each in done:
        if each.rowcount and each.tag.split(" ")[0] in _WRITES:
            wrote.setdefault(each.gid, set()).add(each.node)
    for each in done:
        if each.tag == "ROLLBACK":
            wrote.pop(each.gid, None)
    return wrote


def prepared_left(records: Sequence[HistoryRecord], settings: Settings = NONE) -> list[str]:
    """Return the branches that are still prepared after the scenario has settled."""
    return [
        f"{gid} is still prepared at {record.node}"
        for record in of_kind(records, "prepared")
        for gid in (record.data or {}).get("gids", ())
    ]


def _joined(nodes: Sequence[str] | set[str] | Mapping[str, Any]) -> str:
    return " and ".join(sorted(nodes))
