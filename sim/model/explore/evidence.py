"""Evidence of a run: outcomes reported to applications, actions of coordinators, and states of nodes.

The evidence contains no judgement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twopc.names import BranchId, GlobalId, node_of
from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol.effects import Message, RecordKind
from twopc.protocol.variants import VARIANTS

if TYPE_CHECKING:
    from twopc.sim.model.ledger import LedgerDamage
    from twopc.sim.model.system import System

#: Protocol points of the effects and events at which a fault can strike.
_POINTS: dict[tuple[type, Any], str] = {
    (x.Send, Message.PREPARE): "coordinator.before_prepare({})",
    (e.VotedYes, None): "coordinator.after_prepare({})",
    (x.Log, None): "coordinator.before_decision",
    (e.Logged, None): "coordinator.decision_logged",
    (x.Send, Message.COMMIT): "coordinator.before_commit({})",
    (e.BranchCommitted, None): "coordinator.after_commit({})",
    (x.Send, Message.ABORT): "coordinator.before_rollback({})",
    (x.Send, Message.FENCE): "coordinator.before_rollback({})",
    (e.BranchAborted, None): "coordinator.after_rollback({})",
}

COMMITTED, FENCED, PREPARED = "committed", "fenced", "prepared"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedOutcome:
    """The outcome that was reported to a session at the end of a transaction."""

    session: str
    gid: str
    outcome: str
    """``committed``, ``rolled back``, ``refused``, ``in doubt``, ``heuristic``."""
    error: Exception | None = None
    step: str = ""
    """Step that received the outcome."""
    node: str = ""
    """Node of the session."""
    also: tuple[str, ...] = ()
    """Further nodes at which the session works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEntry:
    """An effect that a coordinator was about to perform, or an event that it received."""

    gid: str
    what: Any
    decided: bool
    """Whether the transaction's commit was durable by then: in the decision log, or at the last agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchMoment:
    """The state of all branches at one moment, by gid of the branch."""

    stands: dict[str, str]
    decided: frozenset[tuple[int, int]]
    """Transactions whose commit is in the decision log."""
    rows: dict[str, tuple[Any, ...]]
    """Rows of the first table by node, without row versions; empty unless they are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalState:
    """The state after all repairs and recovery."""

    prepared: dict[str, tuple[str, ...]]
    """Prepared branches by node."""
    markers: dict[str, dict[str, bool]]
    """By node: gids of markers, and whether each is a fence."""
    decisions: tuple[Any, ...]
    """Decisions that some participant has not received yet."""
    rows: dict[str, dict[str, tuple[Any, ...]]]
    """Rows by table and node, without row versions."""
    versions: dict[str, dict[str, tuple[Any, ...]]]


class Evidence:
    """The evidence of one run; the `twopc.sim.model.ports.RecorderPort` of its system.

    Args:
        keeps_rows: whether rows are kept for every moment.
    """

    def __init__(self, *, keeps_rows: bool = False) -> None:
        self._keeps_rows = keeps_rows
        self.outcomes: list[ReportedOutcome] = []
        self.trace: list[TraceEntry] = []
        self.records: list[tuple[str, dict[str, Any]]] = []
        """All other records of the model."""
        self.moments: list[BranchMoment] = []
        """Moments, oldest first, only where something had changed."""
        self.participants: dict[str, tuple[str, ...]] = {}
        """For the gid of each branch that ever committed: the other branches of its transaction."""
        self.rests: list[FinalState] = []
        self.foreign: tuple[str, ...] = ()
        """Transactions that were prepared before the run began."""
        self.deliveries: list[Any] = []
        """Deliveries of the agents."""
        self.by_hand: list[str] = []
        """Branches that an operator has finished."""
        self._system: System | None = None
        self._last: tuple[Any, ...] = ()

    @property
    def system(self) -> System:
        """System from which the evidence is collected."""
        assert self._system is not None
        return self._system

    @property
    def damage(self) -> list[LedgerDamage]:
        """Damage that the coordinators have recorded."""
        return self.system.ledger.damage

    @property
    def agent_of(self) -> str:
        """Branch whose commit is the decision: ``""`` if the decision is in the log, else the Subscriber's."""
        return "subscriber" if VARIANTS[self.system.spec.commit].last_agent else ""

    def of(self, system: System) -> None:
        """Set the system from which the evidence is collected."""
        self._system = system

    # -- ports.Recorder ----------------------------------------------------------------------------

    def write(self, kind: str, **fields: Any) -> None:
        """Keep a record: an effect or an event of a coordinator, or any other record."""
        if kind == "machine":
            gid = fields["gid"]
            self.trace.append(TraceEntry(gid=gid, what=fields["what"], decided=self._decided(gid)))
        else:
            self.records.append((kind, fields))

    def drew(self, name: str, value: Any) -> None:
        """Do nothing: no random values are drawn in an exploration."""

    def _decided(self, gid: str) -> bool:
        result = GlobalId.parse(gid)
        if result is None:
            return False
        system = self.system
        if self.agent_of:
            agents = [system.nodes[name] for name in system.subscribers]
            return any(
                marker.gid == f"{gid}:{node.name}" and not marker.fence
                for node in agents
                for marker in node.markers()
            )
        record = system.ledger.decisions.get((result.epoch, result.sequence))
        return record is not None and record.kind is RecordKind.COMMIT

    def point(self) -> str:
        """Return the last protocol point that a coordinator has reached; empty if there is none."""
        for note in reversed(self.trace):
            result = _POINTS.get((type(note.what), getattr(note.what, "message", None)))
            if result is not None:
                node = node_of(
                    getattr(note.what, "to", "") or getattr(note.what, "participant", "")
                )
                return result.format(node)
        return ""

    # -- observing the system ----------------------------------------------------------------------

    def begins(self) -> None:
        """Keep the state before the first event."""
        self.foreign = tuple(gid for node in self.system.nodes.values() for gid in node.prepared())

    def look(self) -> None:
        """Keep the state of the branches, if it may have changed."""
        system = self.system
        now = (
            len(system.ledger.decisions),
            *[
                (node.commit_no, len(node.branches), node.up, node.wal.durable)
                for node in system.nodes.values()
            ],
        )
        if now == self._last:
            return
        self._last = now
        stands: dict[str, str] = {}
        for node in system.nodes.values():
            for marker in node.markers():
                stands[marker.gid] = FENCED if marker.fence else COMMITTED
                branch = BranchId.parse(marker.gid)
                if not marker.fence and branch is not None:
                    self.participants[marker.gid] = tuple(
                        str(branch.global_id.branch(site)) for site in marker.participants
                    )
            for gid in node.prepared():
                stands[gid] = PREPARED
        decided = frozenset(
            key
            for key, record in system.ledger.decisions.items()
            if record.kind is RecordKind.COMMIT
        )
        rows: dict[str, tuple[Any, ...]] = {}
        if self._keeps_rows:
            name = system.spec.tables[0].name
            rows = {node: held for node, (held, _) in self._held(name).items()}
        self.moments.append(BranchMoment(stands=stands, decided=decided, rows=rows))

    def ends(self) -> None:
        """Keep the final state."""
        system = self.system
        markers: dict[str, dict[str, bool]] = {}
        for name, node in system.nodes.items():
            markers[name] = {marker.gid: marker.fence for marker in node.markers()}
        rows: dict[str, dict[str, tuple[Any, ...]]] = {}
        versions: dict[str, dict[str, tuple[Any, ...]]] = {}
        for table in system.spec.tables:
            held = self._held(table.name)
            rows[table.name] = {name: without for name, (without, _) in held.items()}
            versions[table.name] = {name: whole for name, (_, whole) in held.items()}
        self.rests.append(
            FinalState(
                prepared={name: tuple(node.prepared()) for name, node in system.nodes.items()},
                markers=markers,
                decisions=tuple(
                    (key, str(record.kind))
                    for key, record in system.ledger.decisions.items()
                    if record.participants
                ),
                rows=rows,
                versions=versions,
            )
        )

    def _held(self, name: str) -> dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """Return a table's rows by node: without row versions, and complete."""
        spec = next(one for one in self.system.spec.tables if one.name == name)
        results = {}
        for node in self.system.nodes.values():
            table = node.table(name)
            own = [at for at, one in enumerate(table.columns) if one.name in spec.columns]
            whole = tuple(tuple(row) for row in table.rows())
            results[node.name] = tuple(tuple(row[at] for at in own) for row in whole), whole
        return results

    def rows(self) -> str:
        """Return the final rows of the tables, as text."""
        if not self.rests:
            return "no end"
        return "; ".join(
            f"{table} {held if len(set(nodes.values())) > 1 else next(iter(nodes.values()))}"
            for table, nodes in self.rests[-1].rows.items()
            for held in [nodes]
        )

    def committed(self) -> set[str]:
        """Return the branches that were committed when last observed: markers are removed after a while."""
        last: dict[str, str] = {}
        for moment in self.moments:
            last.update(moment.stands)
        return {gid for gid, how in last.items() if how == COMMITTED}

    def gids(self) -> list[str]:
        """Return the gid of every known transaction."""
        results = dict.fromkeys(one.gid for one in self.outcomes if one.gid)
        results.update(dict.fromkeys(one.gid for one in self.trace))
        return [gid for gid in results if GlobalId.parse(gid) is not None]
