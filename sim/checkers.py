"""Invariants of a played order, judged from its history alone.

Each checker takes the records of one order and returns what is broken, in words that name the
transaction, table and nodes. None knows the scenario, a database, or what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sim.report.history import Record
from twopc.names import VERSION_COLUMN, BranchId, further_branch, node_of

_WRITES = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "COPY"})

Checker = Callable[[Sequence[Record]], list[str]]
_Content = dict[str, Any]
#: How the agents' work after the last step is called in a history.
LAST_SYNC = "last sync"


def atomic(records: Sequence[Record]) -> list[str]:
    """Every global transaction took effect at all its participants or at none, as its client heard.

    A branch's marker row is written by the branch itself, so it is there exactly where the branch
    committed. A fence is not a branch, and a part that has only read has none.
    """
    committed: dict[str, dict[str, Mapping[str, Any]]] = {}  # global id → branch → its marker
    for record in _of_kind(records, "markers"):
        for marker in (record.data or {}).get("markers", ()):
            branch = BranchId.parse(str(marker["gid"]))
            if branch is None or marker.get("fence"):
                continue
            sites = committed.setdefault(str(branch.global_id), {})
            sites[branch.branch] = marker
    nodes = {record.node for record in _of_kind(records, "markers")}
    wrote = _wrote(records)
    broken = []
    for gid, sites in committed.items():
        missing = {
            each for each in _missing(sites, wrote.get(gid, set())) if node_of(each) in nodes
        }
        if missing:
            broken.append(f"{gid} took effect at {_words(sites)} and not at {_words(missing)}")
    told = {record.gid for record in records if (record.data or {}).get("committed")}
    for record in records:
        who = f"{record.session} ({record.step})"
        if record.kind in ("rejected", "rolled_back") and record.gid in set(committed) - told:
            at = _words(committed[record.gid])
            broken.append(f"{record.gid} was refused to {who} and yet took effect at {at}")
        if (record.data or {}).get("committed") and record.gid in set(wrote) - set(committed):
            broken.append(f"{record.gid} was committed for {who} and took effect nowhere")
    return broken


def _missing(sites: Mapping[str, Mapping[str, Any]], wrote: set[str]) -> set[str]:
    """The branches that must be there because others are, or because rows were changed at those nodes.

    A marker names all branches, those that had nothing to do too; the first is the Publisher's branch of
    the Subscriber that the marker belongs to.
    """
    wanted: set[str] = set()
    for branch, marker in sites.items():
        names: Sequence[str] = marker.get("participants") or (branch,)
        wanted |= wrote & set(names)
        if branch == names[0]:
            wanted.add(_sender(branch, names))
        elif marker.get("sent", True):
            wanted.add(names[0])
    return wanted - set(sites)


def _sender(branch: str, names: Sequence[str]) -> str:
    """The Subscriber whose changes are in a Publisher's branch; the branch itself if none can be told."""
    _, slash, of = branch.partition("/")
    alone = (
        name
        for name in names
        if name != branch and "/" not in name and further_branch(branch, name) not in names
    )
    return of if slash else next(alone, branch)


def _wrote(records: Sequence[Record]) -> dict[str, set[str]]:
    """Where rows were changed, by global transaction; none in which anything was taken back."""
    wrote: dict[str, set[str]] = {}
    done = [record for record in _of_kind(records, "ok") if record.gid]
    for each in done:
        if each.rowcount and each.tag.split(" ")[0] in _WRITES:
            wrote.setdefault(each.gid, set()).add(each.node)
    for each in done:
        if each.tag == "ROLLBACK":
            wrote.pop(each.gid, None)
    return wrote


def prepared_left(records: Sequence[Record]) -> list[str]:
    """The branches that are still prepared when everything has settled."""
    return [
        f"{gid} is still prepared at {record.node}"
        for record in _of_kind(records, "prepared")
        for gid in (record.data or {}).get("gids", ())
    ]


def versions_move_forward(records: Sequence[Record]) -> list[str]:
    """A row's version changes whenever its contents do, and one that was left never comes back.

    And one version names one content: a row that has the same version at two nodes is the same.
    """
    broken = []
    past: dict[tuple[str, str, str], list[tuple[str, _Content]]] = {}
    contents: dict[tuple[str, str, str], tuple[str, _Content]] = {}
    for record in _of_kind(records, "state"):
        if (record.data or {}).get("part"):
            continue  # rows of the Publisher's again, without what is not published
        for table, key, version, content in _versions(record):
            history = past.setdefault((record.node, table, key), [])
            at = f"{table} {key} at {record.node}"
            if not history or history[-1] != (version, content):
                if history and history[-1][0] == version:
                    broken.append(f"{at} changed and kept its version {version}")
                elif any(version == earlier for earlier, _ in history):
                    broken.append(f"{at} came back to its earlier version {version}")
                history.append((version, content))
            node, known = contents.setdefault((table, key, version), (record.node, content))
            common = known.keys() & content.keys()  # not every column need be published
            if node != record.node and any(known[name] != content[name] for name in common):
                broken.append(
                    f"{table} {key} has version {version} at {node} and {record.node}, with "
                    f"different contents"
                )
    return list(dict.fromkeys(broken))


def converged(records: Sequence[Record]) -> list[str]:
    """Once everything is delivered, each Subscriber holds the Publisher's rows, those that belong to it.

    Row versions too: a Subscriber with another one would be refused at its next change.
    """
    final: dict[tuple[str, str], Record] = {}
    parts: dict[tuple[str, str], Record] = {}
    for record in _of_kind(records, "state"):
        data = record.data or {}
        if data["moment"] == "final":
            final[data["table"], record.node] = record
        elif data["moment"] == "part":
            parts[data["table"], data["part"]] = record
    broken = [
        f"{record.node} did not get everything: {record.message}"
        for record in records
        if record.step == LAST_SYNC and record.kind in ("error", "timed_out", "stuck")
    ]
    publisher = next((node for _, node in final), "")
    for (table, node), record in final.items():
        if node != publisher:
            wanted = parts.get((table, node)) or final[table, publisher]
            broken += _differences(table, wanted, record)
    return broken


def _differences(table: str, wanted: Record, got: Record) -> Iterator[str]:
    """What a table at a Subscriber lacks, has too much or has otherwise, by key."""
    key = (wanted.data or {})["key"]
    there, here = _by_key(wanted, key), _by_key(got, key)
    for name in there.keys() | here.keys():
        row, held = there.get(name), here.get(name)
        where = f"{table} {name} at {got.node}"
        if held is None:
            yield f"{where} is missing"
        elif row is None:
            yield f"{where} is not at {wanted.node}"
        else:
            differ = [column for column in held if held[column] != row.get(column)]
            if differ:
                shown = ", ".join(differ).replace(VERSION_COLUMN, "row version")
                yield f"{where} differs from {wanted.node} in {shown}"


def _by_key(record: Record, key: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    return {", ".join(f"{name}={row.get(name)}" for name in key): row for row in record.rows or ()}


def echoed(records: Sequence[Record]) -> list[str]:
    """No transaction is delivered to the Subscriber that it came from."""
    return [
        f"{record.node} got its own transaction back: "
        + ("; ".join((record.data or {}).get("commands", ())) or record.gid)
        for record in _of_kind(records, "deliver")
        if (record.data or {}).get("origin") == record.node
    ]


#: By the names under which scenarios speak of them.
CHECKERS: Mapping[str, Checker] = {
    "atomic": atomic,
    "prepared_left": prepared_left,
    "versions_move_forward": versions_move_forward,
    "converged": converged,
    "echoed": echoed,
}


def _of_kind(records: Sequence[Record], kind: str) -> Iterator[Record]:
    return (record for record in records if record.kind == kind)


def _versions(record: Record) -> Iterator[tuple[str, str, str, _Content]]:
    """Table, key, version and everything else of each row in a state record."""
    data: Mapping[str, Any] = record.data or {}
    for row in record.rows or ():
        key = ", ".join(f"{name}={row.get(name)}" for name in data["key"])
        rest = {name: value for name, value in row.items() if name != VERSION_COLUMN}
        yield data["table"], key, str(row.get(VERSION_COLUMN)), rest


def _words(nodes: Sequence[str] | set[str] | Mapping[str, Any]) -> str:
    return " and ".join(sorted(nodes))
