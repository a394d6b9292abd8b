"""NOT FOR REPLICATION, per object of a subscribed table: whether the object applies to agents' changes.

An agent works under ``session_replication_role = replica``. Under that role PostgreSQL fires a trigger only if it
is ENABLE ALWAYS (or ENABLE REPLICA), and foreign keys and deferrable UNIQUE and EXCLUDE constraints are
triggers too. So an object *is* NOT FOR REPLICATION as PostgreSQL creates it, and *is not* once all its
triggers, including internal ones, are ENABLE ALWAYS. The product's own triggers are left alone: they must
never take a change that an agent delivers for a change of the application's.

The module knows nothing of agents. Every function takes an administrator's connection (a superuser's: internal
triggers need one).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.rows import dict_row

from twopc.errors import SubscriptionError
from twopc.names import article_name
from twopc.sql.fragments import qualified
from twopc.sql.render import render
from twopc.subscriber.objects import owner_role

Connection = AsyncConnection[Any]

__all__ = ["ReplicationObject", "not_for_replication", "restore", "set_not_for_replication"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationObject:
    """An object of a subscribed table that may be NOT FOR REPLICATION."""

    name: str
    kind: str
    """``trigger``, ``foreign key``, ``unique``, ``primary key``, ``exclude``, ``check`` or ``identity``."""
    not_for_replication: bool
    """Whether the object ignores agents' changes."""
    fixed: str | None
    """Reason why `set_not_for_replication` cannot change the object; None if it can."""
    triggers: tuple[int, ...]
    """OIDs of the triggers that implement the object, including those of partitions and of the referenced table."""


# A foreign key of a partitioned table has a separate constraint, with triggers, for each partition; a trigger
# of a partitioned table has a copy for each. `modes` are the modes of all triggers of an object.
_OBJECTS = """
with recursive part(root, oid) as (
    select c.oid, c.oid from pg_constraint c where c.conrelid = %(relid)s
  union
    select p.root, c.oid from part p join pg_constraint c on c.conparentid = p.oid
), copies(root, oid) as (
    select t.oid, t.oid from pg_trigger t where t.tgrelid = %(relid)s and not t.tgisinternal
  union
    select p.root, t.oid from copies p join pg_trigger t on t.tgparentid = p.oid
), object(name, kind, triggers) as (
    select t.tgname::text, 'trigger', array(select c.oid from copies c where c.root = t.oid order by 1)
    from pg_trigger t
    join pg_proc p on p.oid = t.tgfoid
    where t.tgrelid = %(relid)s and not t.tgisinternal and p.pronamespace <> 'msrepl'::regnamespace
  union all
    select c.conname::text,
           case c.contype when 'f' then 'foreign key' when 'p' then 'primary key' when 'u' then 'unique'
                          when 'x' then 'exclude' else 'check' end,
           array(select t.oid from part p join pg_trigger t on t.tgconstraint = p.oid
                 where p.root = c.oid order by 1)
    from pg_constraint c
    where c.conrelid = %(relid)s and c.contype in ('f', 'p', 'u', 'x', 'c')
  union all
    select a.attname::text, 'identity', array[]::oid[]
    from pg_attribute a
    where a.attrelid = %(relid)s and a.attidentity <> '' and not a.attisdropped
)
select o.name, o.kind, o.triggers::bigint[] as triggers,
       coalesce(m.modes not in ('A', 'R'), o.kind in ('identity', 'foreign key')) as not_for_replication,
       case when o.kind = 'identity' then 'agents bring the Publisher''s values, and no sequence moves'
            when o.kind = 'check' then 'PostgreSQL checks it in every session: a trigger in its place could be'
                                       ' NOT FOR REPLICATION'
            when o.kind = 'foreign key' then case when m.modes is null then 'it is not enforced' end
            when o.kind = 'trigger' and m.modes ~ 'R'
                then 'it is ENABLE REPLICA, for agents only: ALTER TABLE ... ENABLE TRIGGER first'
            when o.kind = 'trigger' and m.modes ~ 'D'
                then 'it is disabled: ALTER TABLE ... ENABLE TRIGGER first'
            when m.modes is null then 'it is checked by its index, in every session: only a DEFERRABLE'
                                      ' constraint can be NOT FOR REPLICATION'
       end as fixed
from object o,
lateral (select string_agg(distinct t.tgenabled::text, '' order by t.tgenabled::text) as modes
         from pg_trigger t where t.oid = any (o.triggers)) m
order by o.kind, o.name
"""

_CHANGE = """
select t.oid::bigint, t.tgname::text, n.nspname::text, c.relname::text
from pg_trigger t
join pg_class c on c.oid = t.tgrelid
join pg_namespace n on n.oid = c.relnamespace
where t.oid = any (%(triggers)s::bigint[]::oid[]) and t.tgenabled <> %(mode)s::"char"
order by t.oid
"""

_BEFORE = """
select m.before::text, array_agg(m.trigger::bigint)
from msrepl.trigger_mode m
where m.objid = %(relid)s
group by m.before
"""

_ENABLE = {"O": "enable trigger", "A": "enable always trigger", "R": "enable replica trigger"}


async def not_for_replication(
    connection: Connection, schema: str, table: str
) -> list[ReplicationObject]:
    """Return the objects of a subscribed table that may be NOT FOR REPLICATION, and whether they are.

    Raises:
        SubscriptionError: the table is not subscribed to.
    """
    return await _objects(connection, await _subscribed(connection, schema, table))


async def set_not_for_replication(
    connection: Connection, schema: str, table: str, object_name: str, value: bool
) -> None:
    """Set whether a trigger or constraint is NOT FOR REPLICATION.

    A foreign key that is not also *acts* for agents: the children that its ON DELETE CASCADE deletes are
    missing when the agent delivers their deletion (20598).

    Args:
        object_name: name of a trigger, a constraint, or an identity column.
        value: True if the object ignores agents' changes; False if it fires, or is checked, for agents as for
            all other sessions.

    Raises:
        SubscriptionError: the table is not subscribed to, has no such object, or PostgreSQL does not allow the
            value for it. Nothing is changed.
    """
    async with connection.transaction():
        relid = await _subscribed(connection, schema, table)
        where = article_name(schema, table)
        results = [each for each in await _objects(connection, relid) if each.name == object_name]
        if len(results) > 1:
            kinds = " and ".join(each.kind for each in results)
            raise SubscriptionError(
                f"table {where} has a {kinds} called {object_name!r}: rename one of them"
            )
        if not results:
            known = ", ".join(repr(each.name) for each in await _objects(connection, relid))
            raise SubscriptionError(
                f"table {where} has no trigger, constraint or identity column {object_name!r}; it has "
                f"{known or 'none'}"
            )
        await _set(connection, relid, where, results[0], value)


async def _set(
    connection: Connection, relid: int, where: str, result: ReplicationObject, value: bool
) -> None:
    if result.fixed is not None:
        if result.not_for_replication != value:
            word = "cannot be" if value else "is always"
            raise SubscriptionError(
                f"{result.kind} {result.name!r} of table {where} {word} NOT FOR REPLICATION: {result.fixed}"
            )
        return
    owner = sql.Identifier(owner_role(connection.info.dbname))
    await connection.execute(render("twopc.subscriber", "trigger_mode", owner=owner))
    await connection.execute(
        "insert into msrepl.trigger_mode (trigger, objid, before) "
        "select t.oid, %s, t.tgenabled from pg_trigger t where t.oid = any (%s::bigint[]::oid[]) "
        "on conflict do nothing",
        (relid, list(result.triggers)),
    )
    await _fire(connection, relid, result.triggers, "O" if value else "A")


async def restore(connection: Connection, schema: str, table: str) -> None:
    """Restore how the triggers of a table fired before any `set_not_for_replication`."""
    cursor = await connection.execute("select to_regclass('msrepl.trigger_mode') is not null")
    row = await cursor.fetchone()
    if row is None or not row[0]:
        return
    cursor = await connection.execute(
        "select o.objid::bigint from msrepl.msreplication_objects o "
        "where (o.dest_schema, o.article) = (%s, %s)",
        (schema, table),
    )
    for (relid,) in await cursor.fetchall():
        cursor = await connection.execute(_BEFORE, {"relid": relid})
        for mode, triggers in await cursor.fetchall():
            await _fire(connection, relid, triggers, mode)
        await connection.execute("delete from msrepl.trigger_mode where objid = %s", (relid,))


async def _fire(
    connection: Connection, relid: int, triggers: tuple[int, ...] | list[int], mode: str
) -> None:
    """Change how triggers fire, except those that already fire so.

    The capture triggers do not depend on whether another trigger fires for agents, so the article does not
    become stale: while it has no recorded structure, the DDL guard ignores it.
    """
    cursor = await connection.execute(_CHANGE, {"triggers": list(triggers), "mode": mode})
    changed = await cursor.fetchall()
    if not changed:
        return
    cursor = await connection.execute(
        "update msrepl.msreplication_objects set structure = '' "
        "where objid = %s and structure = msrepl.table_structure(objid)",
        (relid,),
    )
    fitted = cursor.rowcount
    for _, trigger, schema, table in changed:
        await connection.execute(
            sql.SQL("alter table only {} {} {}").format(
                qualified(schema, table), sql.SQL(_ENABLE[mode]), sql.Identifier(trigger)
            )
        )
    if fitted:
        await connection.execute(
            "update msrepl.msreplication_objects set structure = msrepl.table_structure(objid) "
            "where objid = %s",
            (relid,),
        )


async def _subscribed(connection: Connection, schema: str, table: str) -> int:
    cursor = await connection.execute(
        """
        select o.objid::bigint from msrepl.msreplication_objects o
        join pg_class c on c.oid = o.objid
        join pg_namespace n on n.oid = c.relnamespace
        where (n.nspname, c.relname) = (%s, %s)
        """,
        (schema, table),
    )
    row = await cursor.fetchone()
    if row is None:
        raise SubscriptionError(
            f"table {article_name(schema, table)} is not subscribed to at {connection.info.dbname!r}"
        )
    return int(row[0])


async def _objects(connection: Connection, relid: int) -> list[ReplicationObject]:
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(_OBJECTS, {"relid": relid})
        rows = await cursor.fetchall()
    return [ReplicationObject(**{**row, "triggers": tuple(row["triggers"])}) for row in rows]
