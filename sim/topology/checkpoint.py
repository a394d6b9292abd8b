"""Checkpoints of a topology's tables, and rewinding to them, which is faster than creating a new topology.

Rows are restored without firing triggers, and agents do not propagate the restoring: the log reader skips it.
Roles, functions, subscriptions and settings are not restored; if one of them has changed, rewinding is refused. The
module is independent of what happens between checkpoint and rewinding.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from twopc.drivers.channel import CopyChannel
from twopc.errors import ConfigurationError, TwopcError
from twopc.lsn import lsn_value
from twopc.names import LINK_SCHEMA, SCHEMA
from twopc.sim.topology.topology import Topology
from twopc.together import together

Connection = AsyncConnection[Any]

#: Time allowed for a closed connection's backend, and its link, to exit; and the interval at which this is polled.
_EXIT_S = 0.5
_LOOK_EVERY_S = 0.02
#: How long to wait for a lock on a table in use.
_LOCK_TIMEOUT_MS = 2_000
#: Tables of schema msrepl that change with transactions; the other tables define how a node is set up.
_RUNNING = (
    "branch_marker", "call_marker", "coordinator_epoch", "coordinator_key", "decision", "held_row", "heuristic_outcome", "log_message",
    "msdistribution_agents", "msdistribution_history", "mspublisher_databases", "msrepl_blocks",
    "msreplication_subscriptions", "mstracer_history", "mstracer_tokens", "touched_row",
)  # fmt: skip
#: Of `_RUNNING`, the tables that hold records of finished transactions.
_FINISHED = ("branch_marker", "decision", "heuristic_outcome")

_TABLES = """
select n.nspname, c.relname,
       array(select a.attname from pg_attribute as a
             where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
             order by a.attnum)
from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
where c.relkind = 'r' and c.relpersistence <> 't'
  and n.nspname <> 'information_schema' and n.nspname !~ '^pg_' and n.nspname <> all (%s)
order by 1, 2
"""
_SEQUENCES = """
select n.nspname, c.relname
from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
where c.relkind = 'S' and c.relpersistence <> 't'
  and n.nspname <> 'information_schema' and n.nspname !~ '^pg_' and n.nspname <> all (%s)
order by 1, 2
"""
#: Tables of schema msrepl that are not in a given list.
_OTHER_TABLES = """
select relname from pg_class
where relnamespace = to_regnamespace(%s) and relkind = 'r' and relname <> all (%s) order by 1
"""
#: Triggers that would fire when rows are restored: for INSERT or TRUNCATE, with session_replication_role replica.
#: (The guard of branches fires too, and ignores rows of other transactions.)
_FIRING_TRIGGERS = """
select format('trigger %I of table %s', t.tgname, t.tgrelid::regclass)
from pg_trigger as t
where t.tgenabled in ('A', 'R') and (t.tgtype::integer & (4 | 32)) <> 0
  and t.tgfoid is distinct from to_regprocedure('msrepl.sp_mssync_upd_trig()')
  and t.tgfoid is distinct from to_regprocedure('msrepl.refuse_unprepared()') order by 1 limit 1
"""
#: Published tables, and the role as which restored rows keep their versions.
_VERSIONED = """
select n.nspname, c.relname, f.proowner::regrole::text
from pg_trigger as t
join pg_proc as f on f.oid = t.tgfoid
join pg_class as c on c.oid = t.tgrelid
join pg_namespace as n on n.oid = c.relnamespace
where t.tgfoid = to_regprocedure('msrepl.sp_mssync_upd_trig()')
"""
#: Definitions, identified by their catalog rows, without the columns that VACUUM or TRUNCATE changes.
_STRUCTURE = """
with roles(role) as (
    select refobjid from pg_shdepend
    where refclassid = 'pg_authid'::regclass and refobjid >= 16384
      and dbid = (select oid from pg_database where datname = current_database())
)
select string_agg(line, ' ' order by line) from (
    select format('c%s %s %s %s %s %s %s %s %s', c.oid, c.relname, c.relkind, c.relowner, c.relacl,
                  c.relrowsecurity, c.relforcerowsecurity, c.relreplident, c.reloptions) as line
    from pg_class as c
    where c.oid >= 16384 and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S', 'i', 'I')
      and c.relpersistence <> 't' and c.relnamespace <> 'pg_toast'::regnamespace
  union all
    select format('a%s %s %s', a.attrelid, a.attnum, a.xmin)
    from pg_attribute as a join pg_class as c on c.oid = a.attrelid
    where c.oid >= 16384 and a.attnum > 0 and c.relkind in ('r', 'p', 'v', 'm', 'f')
      and c.relpersistence <> 't'
  union all select format('p%s %s', oid, xmin) from pg_proc where oid >= 16384
  union all select format('t%s %s', oid, xmin) from pg_trigger where oid >= 16384
  union all select format('k%s %s', oid, xmin) from pg_constraint where oid >= 16384
  union all select format('r%s %s', oid, xmin) from pg_rewrite where oid >= 16384
  union all select format('e%s %s', oid, xmin) from pg_event_trigger
  union all select format('y%s %s', p.oid, p.xmin) from pg_policy as p
  union all
    select format('n%s %s', oid, xmin) from pg_namespace where oid >= 16384 and nspname !~ '^pg_(toast_)?temp_'
  union all select format('d%s %s', oid, xmin) from pg_type where oid >= 16384 and typtype in ('d', 'e', 'r')
  union all select format('v%s %s', oid, xmin) from pg_enum where oid >= 16384
  union all select format('f%s %s', oid, xmin) from pg_foreign_server
  union all select format('b%s %s', oid, datacl) from pg_database where datname = current_database()
  union all
    select format('s%s %s', s.setrole, s.setconfig) from pg_db_role_setting as s
    where s.setdatabase = (select oid from pg_database where datname = current_database())
       or s.setdatabase = 0 and s.setrole in (select role from roles)
  union all select format('o%s %s', oid, xmin) from pg_authid where oid in (select role from roles)
  union all
    select format('m%s %s', oid, xmin) from pg_auth_members
    where oid >= 16384 and (roleid in (select role from roles) or member in (select role from roles))
) as lines
"""
#: Open or prepared transactions, except those of our background roles, which begin and end by themselves.
_OPEN_TRANSACTIONS = """
select format('transaction %s is prepared', p.gid) from pg_prepared_xacts as p
where p.database = current_database()
union all
select format('session %s (%s) is in a transaction', a.pid, coalesce(nullif(a.application_name, ''), a.usename))
from pg_stat_activity as a
where a.datname = current_database() and a.backend_type = 'client backend' and a.pid <> pg_backend_pid()
  and a.state like 'idle in transaction%' and a.usename <> all ({ours})
limit 1
"""


class RewindError(TwopcError):
    """The topology cannot be rewound; a new one must be created."""


class OpenTransactionError(RewindError):
    """The topology cannot be rewound because its user has left a transaction open or prepared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCheckpoint:
    """The content of a node's tables and sequences at one moment."""

    rows: Mapping[str, bytes] = field(repr=False)
    """Rows as COPY text, row versions included, by quoted table name."""
    columns: Mapping[str, str] = field(repr=False)
    """Quoted column list of `rows`, by quoted table name."""
    sequences: Mapping[str, tuple[int, bool]]
    """Last value of each sequence and whether it has been returned by nextval, by quoted name."""
    structure: str
    """Digest of definitions and subscriptions."""
    settled: tuple[str, ...]
    """Tables of schema msrepl that the digest covers."""
    running: tuple[str, ...]
    """Tables of schema msrepl that are empty when no transaction is in progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The content of a topology's tables and sequences at one moment, as `rewind` needs it."""

    topology: str
    """Name of the topology of which the checkpoint was taken."""
    nodes: Mapping[str, NodeCheckpoint] = field(repr=False)


async def checkpoint(topology: Topology) -> Checkpoint:
    """Save the rows of every table in the nodes' databases, once all changes are delivered.

    Tables and sequences of every schema are saved, but neither large objects nor materialised views.

    Raises:
        RewindError: a transaction is in progress, or a trigger would fire when rows are restored.
        ConfigurationError: a database existed before the topology, and may hold data of others.
        DeliveryError: a change cannot be delivered.
    """
    for node in topology.nodes.values():
        if not node.embedded:
            raise ConfigurationError(
                f"database {node.database!r} of {node.name!r} was not made by this topology: only what it "
                "has made itself can be rewound"
            )
    if await topology.registration.has_subscriptions():
        await topology.sync()
    result = await together(*(_keep(topology, node) for node in topology.nodes))
    return Checkpoint(topology=topology.name, nodes=dict(zip(topology.nodes, result, strict=True)))


async def _keep(topology: Topology, node: str) -> NodeCheckpoint:
    connection = await topology.admin(node)
    await _refuse_firing_triggers(topology, node)
    own = [SCHEMA, LINK_SCHEMA]
    rows, columns = {}, {}
    for schema, table, names in await topology.execute(node, _TABLES, (own,)):
        name = sql.Identifier(schema, table).as_string(connection)
        columns[name] = sql.SQL(", ").join(map(sql.Identifier, names)).as_string(connection)
        rows[name] = b"" if not names else await _copied(connection, name, columns[name])
    sequences = {}
    for schema, name in await topology.execute(node, _SEQUENCES, (own,)):
        identifier = sql.Identifier(schema, name)
        query = sql.SQL("select last_value, is_called from {}").format(identifier)
        value = await topology.execute(node, query.as_string(connection))
        sequences[identifier.as_string(connection)] = value[0][0], value[0][1]
    there = await topology.execute(node, _OTHER_TABLES, (SCHEMA, []))
    held = {name for (name,) in there}
    settled = tuple(sorted(held - {*_RUNNING}))
    return NodeCheckpoint(
        rows=rows,
        columns=columns,
        sequences=sequences,
        structure=await _look(topology, node, settled),
        settled=settled,
        running=tuple(sorted(held & {*_FINISHED})),
    )


async def _copied(connection: Connection, table: str, columns: str) -> bytes:
    command = f"copy {table} ({columns}) to stdout".encode()
    async with connection.cursor() as cursor, cursor.copy(command) as copy:
        return b"".join([bytes(block) async for block in copy])


async def _refuse_firing_triggers(topology: Topology, node: str) -> None:
    seen = await topology.execute(node, _FIRING_TRIGGERS)
    if seen:
        raise RewindError(
            f"{seen[0][0]} at {node} fires for replicas too (ENABLE ALWAYS or REPLICA): it would see rows "
            "being put back. Make a new topology instead"
        )


async def _look(topology: Topology, node: str, settled: Sequence[str]) -> str:
    """Return the digest of a node's definitions and settings.

    Raises:
        RewindError: a transaction is in progress at the node.
    """
    there = topology.node(node)
    own = [there.coordinator_role, there.logreader_role, there.agent_role]
    texts = [sql.SQL(_OPEN_TRANSACTIONS).format(ours=sql.Literal(own)).as_string(None), _STRUCTURE]
    texts += [
        sql.SQL("select string_agg(t::text, ' ' order by t::text) from {} as t")
        .format(sql.Identifier(SCHEMA, table))
        .as_string(None)
        for table in settled
    ]
    connection = await topology.admin(node)
    async with connection.cursor() as cursor:
        # one message: without parameters several statements may be in it
        await cursor.execute(";".join(texts).encode())
        under_way = await cursor.fetchone()
        if under_way is not None:
            raise OpenTransactionError(
                f"{under_way[0]} at {node}: commit or roll it back, and close what is open, before the "
                "topology is rewound"
            )
        digest = hashlib.blake2b(digest_size=16)
        while cursor.nextset():
            for row in await cursor.fetchall():
                digest.update(f"{row[0]}\0".encode())
    return digest.hexdigest()


async def _digests(topology: Topology, to: Checkpoint) -> Mapping[str, str]:
    """Return the digest of each node, once sessions that are closing have ended.

    Raises:
        OpenTransactionError: a session remains in a transaction.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + _EXIT_S
    digests: dict[str, str] = {}
    left: dict[str, OpenTransactionError] = {}

    async def look(node: str) -> None:
        try:
            digests[node] = await _look(topology, node, to.nodes[node].settled)
        except OpenTransactionError as error:
            left[node] = error

    while True:
        await together(*(look(node) for node in topology.nodes))
        if not left:
            return digests
        if loop.time() > until:
            break
        left.clear()
        await topology.any_client.end_links()
        await asyncio.wait({loop.create_future()}, timeout=_LOOK_EVERY_S)
    # prefer to name a Subscriber's session to its link at the Publisher
    raise next(left[node] for node in (*topology.subscribers, *left) if node in left)


async def rewind(topology: Topology, to: Checkpoint) -> None:
    """Restore every table and sequence to its checkpoint, and discard the transactions since.

    Coordinator, log reader and agents are not restarted, and the numbers in gids continue. Applications' sessions
    may stay open, but not in a transaction.

    Raises:
        RewindError: a transaction is in progress, or definitions or subscriptions have changed; nothing was
            modified. Or a table is in use, or an agent has delivered restored rows: the message then says that the
            topology is unusable.
        ConfigurationError: the checkpoint is of another topology, or agents run continuously.
    """
    if to.topology != topology.name:
        raise ConfigurationError(
            f"the checkpoint is of topology {to.topology!r}, not of {topology.name!r}"
        )
    if topology.agents.are_running:
        raise ConfigurationError("agents run by themselves: `stop_agents` first")
    distributes = await topology.registration.has_subscriptions()
    digests = await _digests(topology, to)
    changed = [node for node in topology.nodes if digests[node] != to.nodes[node].structure]
    if changed:
        raise RewindError(
            f"definitions or subscriptions at {', '.join(changed)} are not what they were at the checkpoint: "
            "make a new topology"
        )
    await together(*(_put_back(topology, node, to.nodes[node]) for node in topology.nodes))
    if distributes:
        await _pass_over(topology)


async def _put_back(topology: Topology, node: str, to: NodeCheckpoint) -> None:
    """Restore one node, in one message and one transaction."""
    filled = [table for table, rows in to.rows.items() if rows]
    texts = [
        "begin",
        "set local session_replication_role = replica",
        f"set local lock_timeout = {_LOCK_TIMEOUT_MS}",
    ]
    if to.rows:
        texts.append(f"truncate {', '.join(to.rows)}")
    owners = {
        sql.Identifier(schema, table).as_string(None): owner
        for schema, table, owner in await topology.execute(node, _VERSIONED)
    }
    filled.sort(key=lambda table: table in owners)
    copies = [f"copy {table} ({to.columns[table]}) from stdin" for table in filled]
    kept = sum(table in owners for table in filled)
    if kept:
        role = owners[filled[-1]]
        copies[-kept:] = [
            f"grant pg_write_all_data to {role}",
            f"set local role {role}",
            *copies[-kept:],
            "reset role",
            f"revoke pg_write_all_data from {role}",
        ]
    texts += copies
    for sequence, (value, called) in to.sequences.items():
        name = sql.Literal(sequence).as_string(None)
        texts.append(f"select setval({name}, {value}, {str(called).lower()})")
    texts += [
        sql.SQL("delete from {}").format(sql.Identifier(SCHEMA, table)).as_string(None)
        for table in to.running
    ]
    connection = await topology.admin(node)
    async with connection.lock:
        try:
            await CopyChannel(connection).run(
                ";".join([*texts, "commit"]).encode(),
                [[to.rows[table]] for table in filled],
            )
        except psycopg.errors.LockNotAvailable as error:
            connection.pgconn.exec_(b"rollback")
            raise RewindError(
                f"a table at {node} is in use and cannot be rewound: end the transaction that uses it. "
                "Other nodes may be rewound already, so the topology is of no use any more"
            ) from error
        except psycopg.Error:
            await connection.close()  # the next use opens another
            raise


async def _pass_over(topology: Topology) -> None:
    """Make the log reader and the agents skip the restored rows, and verify that they did."""
    rows = await topology.execute(topology.publisher, "select pg_current_wal_insert_lsn()::text")
    # a commit record that begins at this position is not part of the rewinding
    topology.inspect.leave_untold(await topology.agents.pass_over(lsn_value(rows[0][0]) - 1))
    report = await topology.sync()
    late = [name for name, delivered in report.items() if delivered.transactions]
    if late:
        raise RewindError(
            f"{', '.join(late)} got changes after rewinding: the topology is of no use any more"
        )
