"""Switching off protections to show what fails without them: for teaching, and for proving checks.

Exact fragments of our installed objects are replaced. The number of occurrences of each fragment is known; another
number means that an object was changed without a change of this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from psycopg import AsyncConnection, sql

from twopc import names
from twopc.articles import Article
from twopc.errors import ConfigurationError
from twopc.proc_execution import PROC_SCHEMA, ProcType
from twopc.publisher import proc_execution, publication
from twopc.publisher.pieces import OLD_VERSION, Pieces
from twopc.publisher.proc_execution.articles import find_routine
from twopc.publisher.proc_execution.texts import RoutineTexts
from twopc.sim.topology.topology import Topology

Connection = AsyncConnection[Any]

#: Protections that can be switched off, with their effect as shown to users.
SUPPORTED: Mapping[str, str] = {
    "version_check": "the Publisher compares the row version that a Subscriber's change was made from",
    "marker": "a transaction of a Subscriber's is marked as its own at the Publisher",
    "savepoint_mirror": "a rollback to a savepoint takes back what it had sent to the Publisher",
    "not_for_replication": "triggers that send changes to the Publisher do not fire for agents",
    "snapshot_rule": "a call is carried only if its snapshot saw every writer before it",
    "isolation_check": "only calls of serializable transactions are carried",
    "xact_abort": "an error in a routine goes on to its caller, and nothing is sent",
    "calls": "a call is carried as one command",
}

_OPERATIONS = ("ins", "upd", "del")
_MARKER = "values ($2, pg_current_xact_id(), $3, session_user)"

# Fragments of the gate of calls, each with its replacement; each occurs once.
_GATE = {
    "snapshot_rule": ("pg_current_snapshot()::text", f"'{2**63 - 1}:{2**63 - 1}:'"),
    "isolation_check": (
        "then array['serializable']",
        "then array['read committed', 'repeatable read', 'serializable']",
    ),
    "calls": ("if known.called is not true then", "if true then"),
}

# Capture triggers, except those that partitions inherit.
_CAPTURE_TRIGGERS = """
select c.oid::regclass::text, t.tgname
from pg_trigger t
join pg_class c on c.oid = t.tgrelid
join pg_proc p on p.oid = t.tgfoid
where p.pronamespace = 'msrepl'::regnamespace and not t.tgisinternal
  and p.proname = any (%s) and t.tgparentid = 0
order by 1, 2
"""


async def switch_off(topology: Topology, off: Set[str]) -> None:
    """Remove protections from all current publications and subscriptions; this cannot be undone.

    Raises:
        ConfigurationError: a protection does not exist on servers.
        AssertionError: an object does not contain the expected fragment.
    """
    unknown = sorted(off - SUPPORTED.keys())
    if unknown:
        raise ConfigurationError(
            f"protection {unknown[0]!r} cannot be switched off; those that can are {', '.join(SUPPORTED)}"
        )
    publisher = await topology.admin(topology.publisher)
    articles = await publication.articles(publisher)
    for article in articles:
        if "version_check" in off:
            await _compare_no_versions(publisher, article)
        if "marker" in off:
            await _leave_unmarked(publisher, article)
    for name in sorted(off & _GATE.keys()):
        fragment, instead = _GATE[name]
        await _patch(publisher, "open_bracket", fragment, instead, times=1, schema=PROC_SCHEMA)
    if "xact_abort" in off:
        await _end_calls_alone(publisher)
    for subscriber in topology.subscribers:
        rows = await topology.execute(
            subscriber, "select to_regnamespace(%s) is not null", (names.SCHEMA,)
        )
        if rows[0][0]:
            await switch_off_at(topology, subscriber, off)


async def switch_off_at(topology: Topology, subscriber: str, off: Set[str]) -> None:
    """Remove the protections of one Subscriber, for a Subscriber that has subscribed since `switch_off`."""
    articles = await publication.articles(await topology.admin(topology.publisher))
    there = await topology.admin(subscriber)
    if "savepoint_mirror" in off:
        await _keep_what_was_sent(there, articles)
    if "not_for_replication" in off:
        await _fire_for_agents(there, articles)


async def _compare_no_versions(publisher: Connection, article: Article) -> None:
    """Make changes find rows by key alone, even if the rows have changed since they were received."""
    pieces = Pieces(article)
    version = sql.SQL(" and t.{} operator(pg_catalog.=) r.{}").format(
        sql.SQL(names.VERSION_COLUMN), sql.Identifier(OLD_VERSION)
    )
    await _patch(publisher, _change("upd", article), version.as_string(None), "", times=2)
    same = " and " + pieces.same_values().as_string(None)
    await _patch(publisher, _change("del", article), same, "", times=3)


async def _leave_unmarked(publisher: Connection, article: Article) -> None:
    """Omit the originator from branch markers, so that a branch is taken for the Publisher's own transaction."""
    unmarked = _MARKER.replace("session_user", "null")
    for operation in _OPERATIONS:
        await _patch(publisher, _procedure(operation, article), _MARKER, unmarked, times=1)


async def _keep_what_was_sent(subscriber: Connection, articles: Sequence[Article]) -> None:
    """Send no rollback to a savepoint to the Publisher, so that calls rolled back at the Subscriber keep their
    effect.
    """
    for article in articles:
        for operation in _OPERATIONS:
            function = names.sync_trigger_function(operation, article.schema, article.table)
            await _patch(subscriber, function, "'rollback to s' || sync.sent - 1", "''", times=1)
    await _patch(subscriber, "flush", "'rollback to s' || sent - 1", "''", times=1)
    await _patch(subscriber, "prepare_branch", "'rollback to s' || sent", "''", times=1)


async def _fire_for_agents(subscriber: Connection, articles: Sequence[Article]) -> None:
    """Make capture triggers fire for agents, so that a delivered change is taken for a change of the application."""
    functions = [
        names.sync_trigger_function(operation, article.schema, article.table)
        for article in articles
        for operation in _OPERATIONS
    ]
    rows = await subscriber.execute(_CAPTURE_TRIGGERS, (functions,))
    triggers = await rows.fetchall()
    assert triggers or not articles, "no table has a trigger that captures changes"
    async with subscriber.transaction():
        # otherwise the guard against DDL refuses the command
        await subscriber.execute("update msrepl.msreplication_objects set fingerprints = null")
        for table, trigger in triggers:
            await subscriber.execute(
                sql.SQL("alter table {} enable always trigger {}").format(
                    sql.SQL(table), sql.Identifier(trigger)
                )
            )
        await subscriber.execute(
            "update msrepl.msreplication_objects set fingerprints = msrepl.fingerprints(objid)"
        )


async def _end_calls_alone(publisher: Connection) -> None:
    """Recreate the runners of routines as for routines with xact_abort off."""
    for article in await proc_execution.proc_articles(publisher):
        if not article.xact_abort or article.commits or article.type is ProcType.SCHEMA_ONLY:
            continue
        types = ", ".join(each.type for each in article.given)
        routine = await find_routine(publisher, article.schema, article.name, types)
        runner = RoutineTexts(replace(article, xact_abort=False), routine.signature).runner()
        async with publisher.transaction():
            await publisher.execute("update msrepl.sysprocarticles set working = true")
            await publisher.execute(runner.encode())
            await publisher.execute("update msrepl.sysprocarticles set working = false")


def _procedure(operation: str, article: Article) -> str:
    return names.sync_procedure(operation, article.schema, article.table)


def _change(operation: str, article: Article) -> str:
    return names.change_function(operation, article.schema, article.table)


async def _patch(
    connection: Connection,
    routine: str,
    fragment: str,
    instead: str,
    *,
    times: int,
    schema: str = names.SCHEMA,
) -> None:
    """Recreate a routine of ours with a fragment of its definition replaced."""
    rows = await connection.execute(
        "select pg_get_functiondef(oid) from pg_proc "
        "where pronamespace = %s::regnamespace and proname = %s",
        (schema, routine),
    )
    definitions = [str(row[0]) for row in await rows.fetchall()]
    assert len(definitions) == 1, f"{schema}.{routine} is there {len(definitions)} times"
    count = definitions[0].count(fragment)
    assert count == times, f"{schema}.{routine} has {fragment!r} {count} times and not {times}"
    await connection.execute(definitions[0].replace(fragment, instead).encode())
