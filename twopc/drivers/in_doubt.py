"""Prepared branches: their age, the sessions that they block, the decision, and the action that will be taken.

The module only reads and explains, except for `force`, which records each change before making it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace

import psycopg
from psycopg import sql

from twopc.drivers import heuristics
from twopc.drivers.age import Age
from twopc.drivers.database import Database
from twopc.drivers.participant import ServerParticipant
from twopc.errors import ConfigurationError
from twopc.names import BranchId
from twopc.protocol import VARIANTS
from twopc.protocol.effects import Outcome, Record, RecordKind, record_of
from twopc.protocol.recovery import Action, BranchFacts, decide

_PREPARED = """
select p.gid, p.owner, coalesce(pg_has_role(p.owner, 'member'), false), extract(epoch from clock_timestamp() - p.prepared)::float8, p.transaction::text,
       array(
           select distinct c.oid::regclass::text
           from pg_locks own
           join pg_locks l on l.pid is null and l.virtualtransaction = own.virtualtransaction
                          and l.locktype = 'relation' and l.mode <> 'AccessShareLock'
           join pg_class c on c.oid = l.relation and c.relkind in ('r', 'p')
                          and c.relnamespace is distinct from to_regnamespace('msrepl')
           where own.pid is null and own.locktype = 'transactionid'
             and own.transactionid = p.transaction
           order by 1),
       age(p.transaction), current_setting('autovacuum_freeze_max_age')::int,
       coalesce(s.kept, 0)::bigint, coalesce(s.slot_name::text, '')
from pg_prepared_xacts p
left join (
    select slot_name, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), restart_lsn) as kept
    from pg_replication_slots where slot_type = 'logical' and restart_lsn is not null
    order by 2 desc limit 1) s on true
where p.database = current_database()
order by p.prepared, p.gid
"""
# Every role may see which session waits for which lock, though not other roles' statements.
_WAITERS = """
select x.gid, w.pid, a.application_name, w.mode || ' on ' || w.locktype,
       regexp_replace(coalesce(w.relation::regclass::text, (
           select t.relation::regclass::text from pg_locks t
           where t.pid = w.pid and t.granted and t.locktype = 'tuple' limit 1), ''), '^public[.]', '')
from pg_locks w
join pg_stat_activity a on a.pid = w.pid and a.datname = current_database()
join pg_locks h on h.pid is null and h.granted
     and (h.locktype, h.database, h.relation, h.page, h.tuple, h.transactionid, h.classid, h.objid,
          h.objsubid) is not distinct from
         (w.locktype, w.database, w.relation, w.page, w.tuple, w.transactionid, w.classid, w.objid,
          w.objsubid)
join pg_locks own on own.pid is null and own.locktype = 'transactionid'
     and own.virtualtransaction = h.virtualtransaction
join pg_prepared_xacts x on x.transaction = own.transactionid
where not w.granted
"""
_EPOCHS = """
select e.epoch, e.variant, l.epoch is not null
from msrepl.coordinator_epoch e left join msrepl.living_epoch l using (epoch)
where e.coordinator = any (%s)
"""
_DECISION = "select kind, participants from msrepl.decision where (epoch, sequence) = (%s, %s)"
_SMALL = "select coalesce(sum(relpages), 0) < 10000 from pg_class where oid = any(%s::regclass[])"
# A savepoint has a transaction id of its own, and no view shows its transaction. So a row counts if its holder
# began after the branch and is not finished.
_HELD_ROWS = """
select count(*)
from {relation} as t, (select pg_snapshot_xmax(pg_current_snapshot())::text::bigint >> 32 << 32 as epoch) as e
where case when age(t.xmax) between 1 and age({xid}::xid)
           then pg_xact_status((e.epoch | t.xmax::text::bigint)::text::xid8) = 'in progress'
      end
"""
_RECORD_OUTCOME = {RecordKind.COMMIT: Outcome.COMMITTED, RecordKind.ABORT: Outcome.ABORTED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """A session that waits for a lock of a prepared branch."""

    pid: int
    application_name: str
    lock: str
    relation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InDoubtBranch:
    """A prepared branch."""

    gid: str
    node: str
    owner: str
    age_s: float
    age: Age
    """The age in time, transactions and log, with warnings."""
    relations: tuple[str, ...]
    """Tables that the branch has changed or locked."""
    rows_locked: int | None
    """Number of rows in those tables that the branch has updated, deleted or locked, or that were locked since;
    None if they cannot be counted, because the role may not read a table or a table is large.
    """
    waiters: tuple[Waiter, ...]
    decision: str
    """``commit``, ``abort``, ``collecting`` or empty, according to the decision log."""
    ours: bool
    """Whether the branch belongs to the given coordinator."""
    is_under_way: bool
    """Whether the process that prepared the branch is alive and has not decided yet."""
    next_action: str
    """The action that will be taken, and what an operator can do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorLedger:
    """The distribution database's records of coordinators."""

    coordinators: frozenset[str]
    resolved: frozenset[str]
    """Coordinators in whose names clients without a coordinator write; a resolver settles their branches."""
    epochs: Mapping[int, tuple[str, bool]] = field(default_factory=dict)
    """Variant of each epoch, and whether the epoch is alive."""
    is_known: bool = False
    """Whether the distribution database could be read; if not, epochs and decisions are unknown."""


async def in_doubt(
    database: Database,
    participants: Sequence[ServerParticipant],
    coordinator: str,
    *,
    any_client: Collection[str] = (),
    unreachable: MutableMapping[str, str] | None = None,
) -> list[InDoubtBranch]:
    """Return every prepared transaction in the participants' databases, oldest first.

    Args:
        any_client: other coordinators that count as ours: those in whose names any client writes.
        unreachable: receives the nodes that cannot be reached, with the reasons; the branches of the other nodes
            are returned. If None, an unreachable node is an error.

    Raises:
        psycopg.Error: a server cannot be reached, and `unreachable` is None.
    """
    ledger = CoordinatorLedger(
        coordinators=frozenset((coordinator, *any_client)), resolved=frozenset(any_client)
    )
    try:
        rows = await database.fetch(_EPOCHS, (list(ledger.coordinators),))
        epochs = {epoch: (variant, alive) for epoch, variant, alive in rows}
        ledger = replace(ledger, epochs=epochs, is_known=True)
    except psycopg.OperationalError as error:
        if unreachable is None:
            raise
        unreachable[database.node] = reason_of(error)
    results: list[InDoubtBranch] = []
    for participant in participants:
        try:
            results += await _prepared_at(participant, database, ledger)
        except psycopg.OperationalError as error:
            if unreachable is None:
                raise
            unreachable[participant.name] = reason_of(error)
    return sorted(results, key=lambda one: -one.age_s)


def reason_of(error: psycopg.Error) -> str:
    """Return the reason why a server cannot be reached, in one line."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


async def _prepared_at(
    participant: ServerParticipant, database: Database, ledger: CoordinatorLedger
) -> list[InDoubtBranch]:
    results: list[InDoubtBranch] = []
    waiters: dict[str, list[Waiter]] = {}
    for gid, pid, name, lock, relation in await participant.database.fetch(_WAITERS):
        waiter = Waiter(pid=pid, application_name=name, lock=lock, relation=relation)
        waiters.setdefault(gid, []).append(waiter)
    for gid, owner, is_ours, *rest in await participant.database.fetch(_PREPARED):
        age_s, xid, relations, xids, freeze_xids, log_bytes, slot = rest
        branch = BranchId.parse(gid)
        record, epoch, is_of_ledger = None, None, False
        if branch is not None:
            epoch = ledger.epochs.get(branch.global_id.epoch)
            is_of_ledger = branch.global_id.coordinator in ledger.coordinators
            if is_of_ledger and ledger.is_known:
                record = await _decision_of(database, branch)
        results.append(
            InDoubtBranch(
                gid=gid,
                node=participant.name,
                owner=owner,
                age_s=age_s,
                age=Age(
                    age_s=age_s,
                    xids=xids,
                    freeze_xids=freeze_xids,
                    log_bytes=log_bytes,
                    slot=slot,
                ),
                relations=tuple(one.removeprefix("public.") for one in relations),
                rows_locked=await _rows_locked(participant.database, relations, xid),
                waiters=tuple(waiters.get(gid, ())),
                decision=str(record.kind) if record is not None else "",
                ours=is_of_ledger,
                is_under_way=epoch is not None and epoch[1] and record is None,
                next_action=_next_action(
                    ledger, branch, participant.name, record, stranger="" if is_ours else owner
                ),
            )
        )
    return results


async def _decision_of(database: Database, branch: BranchId) -> Record | None:
    rows = await database.fetch(_DECISION, (branch.global_id.epoch, branch.global_id.sequence))
    return record_of(RecordKind(rows[0][0]), tuple(rows[0][1])) if rows else None


async def _rows_locked(database: Database, relations: list[str], xid: str) -> int | None:
    """Return the number of old versions of locked rows; counted for small tables only, since the whole table is
    read.
    """
    total = 0
    try:
        if not (await database.fetch(_SMALL, (relations,)))[0][0]:
            return None
        async with database.use() as connection:
            for relation in relations:  # regclass output, which the server has quoted
                text = sql.SQL(_HELD_ROWS).format(relation=sql.SQL(relation), xid=sql.Literal(xid))
                row = await (await connection.execute(text)).fetchone()
                total += row[0] if row else 0
    except psycopg.errors.InsufficientPrivilege:
        return None
    return total


def _next_action(
    ledger: CoordinatorLedger,
    branch: BranchId | None,
    node: str,
    record: Record | None,
    *,
    stranger: str,
) -> str:
    if branch is None:
        return "left alone: not a branch of this project"
    unknown = "not known: the distribution database, which holds the decisions, cannot be reached"
    if branch.global_id.coordinator not in ledger.coordinators:
        if not ledger.is_known:  # the distribution database holds the coordinators' names, too
            return unknown
        return f"left alone: it belongs to coordinator {branch.global_id.coordinator!r}"
    if branch.node != node:
        return f"left alone: a branch of {branch.node!r}, prepared at {node!r}"
    if not ledger.is_known:
        return unknown
    epoch = ledger.epochs.get(branch.global_id.epoch)
    if epoch is None:
        return (
            f"left alone: the decision log knows no epoch {branch.global_id.epoch}; find out what became"
            " of the other branches, and decide by force"
        )
    if stranger:
        return (
            f"left alone: prepared by {stranger}, of which the coordinator is no member; if that is a role of this"
            f" topology: GRANT {stranger} to the coordinator's role"
        )
    if branch.global_id.coordinator in ledger.resolved:
        return (
            "the resolver asks the Subscriber: commit if its client has committed there, roll back if not; "
            "if none runs: twopc resolver"
        )
    variant, alive = VARIANTS[epoch[0]], epoch[1]
    records = (record,) if record is not None else ()
    verdict = decide(
        BranchFacts(is_own=True, alive=alive and record is None, records=records), variant
    )
    what = {
        Action.COMMIT: "commit",
        Action.ABORT: "roll back",
        Action.ASK_AGENT: "ask the last agent",
        Action.LEAVE: "wait",
        Action.BLOCK: "wait for a person",
    }[verdict.action]
    return f"{what}: {verdict.reason}"


async def force(
    database: Database,
    participants: Mapping[str, ServerParticipant],
    coordinator: str,
    gid: str,
    outcome: Outcome,
    reason: str,
) -> Outcome:
    """Finish a prepared branch at an operator's request, recorded in the distribution database first.

    Returns:
        The branch's outcome: another session may have finished it before.

    Raises:
        ConfigurationError: the gid is not a branch of this coordinator, or is not prepared.
        psycopg.Error: the request could not be recorded, and was not executed; or it failed.
    """
    branch = BranchId.parse(gid)
    if branch is None or branch.global_id.coordinator != coordinator:
        raise ConfigurationError(f"{gid!r} is no branch of coordinator {coordinator!r}")
    participant = participants.get(branch.node)
    if participant is None:
        raise ConfigurationError(f"{gid!r}: there is no participant {branch.node!r}")
    if gid not in await participant.prepared(gid):
        raise ConfigurationError(f"no branch {gid} is prepared at {participant.name}")
    record = await _decision_of(database, branch)
    decided = _RECORD_OUTCOME.get(record.kind) if record is not None else None
    await heuristics.forced(
        database,
        gid=gid,
        node=participant.name,
        outcome=outcome,
        decided=decided,
        reason=reason,
    )
    return await participant.settle(gid, outcome, [])
