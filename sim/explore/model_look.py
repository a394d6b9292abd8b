"""State of a model at one moment: rows with versions and locks, branches, decisions, and positions of agents.

Reads the model's own store without changing it. Keys and values are those of
`twopc.sim.explore.wire.runs.WireRun.states`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from twopc.merge.articles import ROWGUID
from twopc.names import VERSION_COLUMN, BranchId
from twopc.sim.explore.merge_look import MergeLook
from twopc.sim.faults.agenda import session_of_process
from twopc.sim.model.node import inspection
from twopc.sim.model.node.heap import HeapRow, HeapTable, Version
from twopc.sim.model.node.modes import TABLE_NAMES, TABLE_SHARE
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.transactions import TopXact, Xact
from twopc.sim.model.values import CommittedTransaction
from twopc.sim.scenario.merge_model_stage import MergeModelStage
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.model_stage import ModelStage

State = dict[str, dict[str, Any]]
_ROW_MODES = {1: "key share", 2: "share", 3: "no key update", 4: "update"}
_UNKNOWN = "an unknown session"
#: Internal tables whose rows are distributed, as they represent calls.
_CALLS = ("msrepl.call_marker", "msrepl.log_message")
#: Processes whose sessions are not those of clients, by the prefix of their names.
_PROCESSES = {"msrepl agent": "agent", "msrepl snapshot": "snapshot agent", "twopc ": "coordinator"}


class ModelLook:
    """Observer of the model of one case."""

    def __init__(self, scenario: Scenario, stage: ModelStage) -> None:
        self._scenario = scenario
        self._stage = stage
        self._model = stage.model
        self._merges = MergeLook(stage.merging) if isinstance(stage, MergeModelStage) else None
        shown = {name for table in scenario.tables.values() for name in table.columns}
        self._hidden = {ROWGUID} - shown if scenario.merges else set[str]()
        """Columns added by replication, which are not shown."""
        self._of_gid: dict[str, str] = {}
        """Sessions of global transactions, by gid."""
        self._markers: dict[str, tuple[object, State]] = {}
        """Branch markers by node, and the rows from which they were read."""
        self._names: dict[int, str] = {}
        """Keys of rows, by the identity of a version."""
        self._texts: dict[int, tuple[Version, dict[str, str | None], str]] = {}
        """Texts of versions, by identity; the version is kept alive, so that its identity is not reused."""
        self._at_rest: dict[int, tuple[Version, str, dict[str, Any]]] = {}
        """Keys and values of rows with a single version, by its identity: most rows of a long table do not change."""

    def __call__(self) -> State:
        """Return the present state."""
        for name, session in self._stage.sessions.items():
            if session.gid:
                self._of_gid[session.gid] = name
        state: State = {}
        for node in self._model.nodes.values():
            state[f"node/{node.name}"] = {
                "up": node.up,
                "reached": node.name not in self._model.network._shut,
            }
            if node.up:
                self._rows(node, state)
                self._locks(node, state)
                self._branches(node, state)
        self._stale(state)
        self._decisions(state)
        self._distribution(state)
        if self._merges is not None:
            self._merges.look(state)
        return state

    # -- rows ----------------------------------------------------------------------------------------

    def _rows(self, node: ModelNode, state: State) -> None:
        waiting = self._waiting(node)
        for name in self._scenario.tables:
            table = node.tables.get(name)
            if table is None:
                continue
            for row in table.all_rows:
                waits = waiting.get(id(row), [])
                known = self._at_rest.get(id(row.versions[0])) if _is_at_rest(row) else None
                if known is not None and not waits:
                    state[known[1]] = known[2]
                    continue
                seen = self._row(node, table, row)
                if seen is None:
                    continue
                key, value = f"row/{node.name}/{name}/{seen[0]}", seen[1]
                value["waiting"] = waits
                state[key] = value
                if _is_at_rest(row) and not waits:
                    self._at_rest[id(row.versions[0])] = (row.versions[0], key, value)

    def _row(
        self, node: ModelNode, table: HeapTable, row: HeapRow
    ) -> tuple[str, dict[str, Any]] | None:
        committed: Version | None = None
        pending: list[Version] = []
        for version in row.versions:
            if not version.xmin.top.commit_no:
                pending.append(version)
            elif version.xmax is None or not version.xmax.top.commit_no:
                committed = version
        if committed is None and not pending:
            return None
        uncommitted = [self._version(node, table, each) for each in pending]
        if committed is not None and committed.xmax is not None and not pending:
            by = self._who(node, committed.xmax.top)
            uncommitted.append({**self._gone(committed.xmax.top), "by": by})
        shown = self._version(node, table, committed or pending[0])
        locked = [
            {"by": self._who(node, xact.top), "mode": _ROW_MODES[mode]}
            for xact, mode in (row.holders or {}).items()
        ]
        value = {
            "values": shown["values"] if committed is not None else {},
            "version": shown["version"] if committed is not None else "",
            "label": "",
            "exists": committed is not None,
            "uncommitted": uncommitted,
            "locked_by": locked,
            "stale": False,
        }
        return self._key(table, committed or pending[0]), value

    def _version(self, node: ModelNode, table: HeapTable, version: Version) -> dict[str, Any]:
        values, identifier = self._text(table, version)
        top = version.xmin.top
        return {
            "values": values,
            "version": identifier,
            "label": "",
            "by": "" if top.commit_no else self._who(node, top),
            "state": "committed" if top.commit_no else "prepared" if top.gid else "open",
            "gone": False,
        }

    @staticmethod
    def _gone(top: TopXact) -> dict[str, Any]:
        kind = "prepared" if top.gid else "open"
        return {"values": {}, "version": "", "label": "", "state": kind, "gone": True}

    def _text(self, table: HeapTable, version: Version) -> tuple[dict[str, str | None], str]:
        known = self._texts.get(id(version))
        if known is None or known[0] is not version:
            values = {
                column.name: None if value is None else column.type.text(value)
                for column, value in zip(table.columns, version.values, strict=False)
                if column.name not in self._hidden
            }
            identifier = str(values.pop(VERSION_COLUMN, None) or "")
            known = self._texts[id(version)] = (version, values, identifier)
        return known[1], known[2]

    def _key(self, table: HeapTable, version: Version) -> str:
        values, _ = self._text(table, version)
        known = self._names.get(id(version))
        if known is None:
            names = table.key or tuple(values)
            known = ", ".join(f"{name}={values.get(name)}" for name in names)
            self._names[id(version)] = known
        return known

    def _waiting(self, node: ModelNode) -> dict[int, list[str]]:
        """Return the sessions that wait for each row."""
        results: dict[int, list[str]] = {}
        for session in node.sessions.values():
            wait = session.wait
            if wait is not None and wait.row is not None:
                who = self._of_process(node, session.pid, session.application_name)
                results.setdefault(id(wait.row), []).append(who)
        return results

    def _stale(self, state: State) -> None:
        """Mark Subscribers' rows that differ from the Publisher's."""
        publisher = self._scenario.topology.publisher
        for key, row in state.items():
            kind, node, rest = (*key.split("/", 2), "", "")[:3]
            if kind != "row" or node == publisher:
                continue
            other = state.get(f"row/{publisher}/{rest}")
            there, here = other["values"] if other is not None else {}, row["values"]
            is_stale = there != here and any(
                there.get(name, value if there else None) != value for name, value in here.items()
            )
            if is_stale:  # copied, as an earlier state may share the row
                state[key] = {**row, "stale": True}

    # -- locks and branches --------------------------------------------------------------------------

    def _locks(self, node: ModelNode, state: State) -> None:
        for each in inspection.wait_rows(node):
            if not each.holder_pids and not each.holder_gids:
                continue
            who = self._of_process(node, each.pid, each.application_name)
            holders = [self._of_pid(node, pid) for pid in each.holder_pids if pid]
            holders += [self._of_branch(gid) + ", prepared" for gid in each.holder_gids]
            state[f"lock/{node.name}/{who}"] = {
                "session": who,
                "what": each.relation,
                "mode": each.lock,
                "granted": False,
                "waits_for": [*dict.fromkeys(holders)],
            }
        for name in self._scenario.tables:
            table = node.tables.get(name)
            for top, modes in table.locks.items() if table is not None else ():
                strong = [bit for bit in TABLE_NAMES if modes & bit and bit >= TABLE_SHARE]
                if strong:
                    who = self._who(node, top)
                    state[f"lock/{node.name}/{who}/{name}"] = {
                        "session": who,
                        "what": name,
                        "mode": f"{TABLE_NAMES[strong[-1]]}Lock",
                        "granted": True,
                        "waits_for": [],
                    }

    def _branches(self, node: ModelNode, state: State) -> None:
        for gid, branch in node.branches.items():
            if branch.valid or branch.top.prepared_at:
                state[f"prepared/{node.name}/{gid}"] = {"gid": gid, "by": self._of_branch(gid)}
        if "msrepl.branch_marker" not in node.tables:
            return
        rows = tuple(node.tables["msrepl.branch_marker"].rows())
        known = self._markers.get(node.name)
        if known is None or known[0] != rows:
            markers = {
                f"marker/{node.name}/{each.gid}": {
                    "gid": each.gid,
                    "by": self._of_branch(each.gid),
                    "fence": each.fence,
                    "participants": list(each.participants),
                }
                for each in inspection.markers(node)
            }
            known = self._markers[node.name] = (rows, markers)
        state |= known[1]

    def _decisions(self, state: State) -> None:
        for (epoch, number), record in self._model.ledger.decisions.items():
            coordinator = self._model.ledger.epochs[epoch].coordinator
            gid = f"twopc:{coordinator}:{epoch}:{number}"
            state[f"decision/{gid}"] = {
                "gid": gid,
                "by": self._of_gid.get(gid, ""),
                "decision": record.kind.name.lower(),
                "participants": list(record.participants),
            }

    # -- distribution --------------------------------------------------------------------------------

    def _distribution(self, state: State) -> None:
        distribution = self._model.distribution
        if distribution is None:
            return
        store = distribution.store
        stored = store.transactions
        end = distribution.publisher.wal.end
        numbers = {each.seqno: number for number, each in enumerate(stored, 1)}
        state["reader"] = {
            "read": len(stored),
            "behind": sum(
                each.lsn > store.read_to and _is_distributed(each)
                for each in inspection.log(distribution.publisher, store.read_to)
            )
            if end > store.read_to
            else 0,
        }
        for each in stored:
            number = numbers[each.seqno]
            state[f"stored/{number}"] = {
                "number": number,
                "origin": distribution.registry.names.get(
                    each.originator, distribution.spec.publisher
                ),
                "commands": len(each.commands),
            }
        for name, seat in distribution.seats.items():
            position = distribution.position(name)
            delivered = sum(1 for each in stored if each.seqno <= position)
            process = seat.process
            paused = bool(getattr(seat, "_paused", False))
            state[f"agent/{name}"] = {
                "delivered": delivered,
                "behind": len(stored) - delivered,
                "state": "paused"
                if paused
                else "idle"
                if process is None or process.alive
                else "dead",
            }

    # -- who -----------------------------------------------------------------------------------------

    def _who(self, node: ModelNode, xact: Xact) -> str:
        top = xact.top
        if top.gid:
            return self._of_branch(top.gid)
        session = top.session
        if session is None:
            return _UNKNOWN
        return self._of_process(node, session.pid, session.application_name)

    def _of_branch(self, gid: str) -> str:
        branch = BranchId.parse(gid)
        return self._of_gid.get(str(branch.global_id), gid) if branch is not None else gid

    def _of_pid(self, node: ModelNode, pid: int) -> str:
        session = node.sessions.get(pid)
        name = session.application_name if session is not None else ""
        return self._of_process(node, pid, name)

    def _of_process(self, node: ModelNode, pid: int, application_name: str) -> str:
        every: Mapping[str, Any] = self._stage.sessions
        name, _ = session_of_process(every, node.name, pid, application_name)
        for start, what in _PROCESSES.items():
            if not name and application_name.startswith(start):
                return f"{what} of {node.name}" if what != "coordinator" else what
        return name or application_name or f"process {pid}"


def _is_at_rest(row: HeapRow) -> bool:
    """Return whether a row has a single, committed version, and no lock."""
    versions = row.versions
    if len(versions) != 1 or row.holders:
        return False
    return bool(versions[0].xmin.top.commit_no) and versions[0].xmax is None


def labelled(states: list[dict[str, Any]], label_of: Mapping[tuple[str, str], str]) -> None:
    """Label versions as reports do: ``v1`` is the first version seen of a row at the Publisher.

    Args:
        label_of: labels by ``table/key`` and identifier.
    """
    for row, key in _rows_of(states):
        for each in (row, *row["uncommitted"]):
            if each["version"]:
                each["label"] = label_of.get((key, each["version"]), "")


def _rows_of(states: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str]]:
    for delta in states:
        for key, value in delta.items():
            if key.startswith("row/") and value is not None:
                yield value, key.split("/", 2)[2]


def _is_distributed(transaction: CommittedTransaction) -> bool:
    """Return whether a transaction changes tables or calls procedures; others are internal to replication."""
    return any(
        each.table in _CALLS or not each.table.startswith("msrepl.") for each in transaction.changes
    )
