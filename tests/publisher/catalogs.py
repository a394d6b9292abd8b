"""The content of a database's catalogs as text, for tests that all objects are removed."""

from __future__ import annotations

from typing import Any

from tests.fix_topology import MakeTopology
from twopc import names
from twopc.sim.topology import Topology

#: One line per fact. Dropped columns do not appear, as they do not in a dump.
_FACTS = """
select format('relation %s.%s %s %s %s %s rls=%s owner=%s', n.nspname, c.relname, c.relkind, c.relpersistence,
              c.relreplident, c.reloptions, c.relrowsecurity, c.relowner::regrole)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname !~ '^pg_|^information_schema'
union all
select format('column %s.%s %s not_null=%s default=%s identity=%s generated=%s collation=%s stats=%s',
              a.attrelid::regclass, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
              pg_get_expr(d.adbin, d.adrelid), a.attidentity, a.attgenerated, a.attcollation::regcollation,
              a.attstattarget)
from pg_attribute a
join pg_class c on c.oid = a.attrelid
join pg_namespace n on n.oid = c.relnamespace
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where n.nspname !~ '^pg_|^information_schema' and a.attnum > 0 and not a.attisdropped
union all
select format('constraint %s %s %s', c.conrelid::regclass, c.conname, pg_get_constraintdef(c.oid))
from pg_constraint c join pg_namespace n on n.oid = c.connamespace
where n.nspname !~ '^pg_|^information_schema'
union all
select format('index %s', pg_get_indexdef(x.indexrelid))
from pg_index x join pg_class c on c.oid = x.indexrelid join pg_namespace n on n.oid = c.relnamespace
where n.nspname !~ '^pg_|^information_schema'
union all
select format('trigger %s %s %s', t.tgname, t.tgenabled, pg_get_triggerdef(t.oid))
from pg_trigger t where not t.tgisinternal
union all
select format('routine %s owner=%s', p.oid::regprocedure, p.proowner::regrole)
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where n.nspname !~ '^pg_|^information_schema'
union all
select format('type %s.%s %s', n.nspname, t.typname, t.typtype)
from pg_type t join pg_namespace n on n.oid = t.typnamespace
where n.nspname !~ '^pg_|^information_schema'
union all
select format('enum %s %s', l.enumtypid::regtype, l.enumlabel) from pg_enum l
union all
select format('schema %s', n.nspname) from pg_namespace n where n.nspname !~ '^pg_|^information_schema'
union all
select format('policy %s', p.polname) from pg_policy p
union all
select format('rule %s', r.rulename) from pg_rewrite r join pg_class c on c.oid = r.ev_class
join pg_namespace n on n.oid = c.relnamespace where n.nspname !~ '^pg_|^information_schema'
union all
select format('extension %s', e.extname) from pg_extension e
union all
select format('event trigger %s', e.evtname) from pg_event_trigger e
union all
select format('server %s', s.srvname) from pg_foreign_server s
union all
select format('role %s', r.rolname) from pg_roles r where r.rolname ~ '^msrepl_(link|owner)'
       and r.rolname in (select d.refobjid::regrole::text from pg_shdepend d
                         where d.dbid = (select oid from pg_database where datname = current_database()))
union all
select format('right on %s: %s', pg_describe_object(d.classid, d.objid, 0),
              string_agg(distinct d.refobjid::regrole::text, ' ' order by d.refobjid::regrole::text))
from pg_shdepend d
where d.deptype = 'a' and d.dbid = (select oid from pg_database where datname = current_database())
group by d.classid, d.objid
union all
select format('right on relation %s: %s %s %s', c.oid::regclass, a.grantee::regrole, a.privilege_type, a.is_grantable)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
cross join aclexplode(coalesce(c.relacl, acldefault(case c.relkind when 'S' then 's' else 'r' end::"char", c.relowner))) a
where n.nspname !~ '^pg_|^information_schema' and c.relkind in ('r', 'p', 'S', 'v')
union all
select format('right on column %s.%s: %s %s', t.attrelid::regclass, t.attname, a.grantee::regrole, a.privilege_type)
from pg_attribute t cross join aclexplode(t.attacl) a where t.attrelid >= 16384 and not t.attisdropped
union all
select format('right on schema %s: %s %s', n.nspname, a.grantee::regrole, a.privilege_type)
from pg_namespace n cross join aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
where n.nspname !~ '^pg_|^information_schema'
union all
select format('right on routine %s: %s %s', p.oid::regprocedure, a.grantee::regrole, a.privilege_type)
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
cross join aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
where n.nspname !~ '^pg_|^information_schema'
order by 1
"""


async def snapshot(topology: Topology, node: str) -> set[str]:
    """Return all facts about a node's database."""
    return {line for (line,) in await topology.execute(node, _FACTS)}


async def rows(topology: Topology, node: str, *tables: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of tables as text."""
    return {
        table: await topology.execute(node, f"select t::text from {table} as t order by 1")
        for table in tables
    }


EVERYTHING = (
    "create schema sales",
    "create role {reader}",
    "create type sales.mood as enum ('good', 'bad')",
    "create sequence sales.nr",
    "create function sales.made() returns text language sql as $$ select 'made' $$",
    "revoke all on function sales.made from public",
    """create table sales.customer (
        id int generated always as identity primary key, name text not null unique, mood sales.mood default 'good',
        nr bigint default nextval('sales.nr'), made text default sales.made(), secret text default 's',
        twice bigint generated always as (nr * 2) stored, check (length(name) < 100))""",
    "create table sales.visit (id int primary key, customer int references sales.customer on delete cascade)",
    "create table sales.log (id int generated always as identity, what text)",
    "create function sales.log() returns trigger language plpgsql security definer as"
    " $$ begin insert into sales.log (what) values (tg_op); return coalesce(new, old); end $$",
    "create trigger log before insert or update or delete on sales.customer"
    " for each row execute function sales.log()",
    "grant select (name) on sales.customer to {reader}",
    "grant select on sales.visit to {reader}",
    "alter table sales.customer replica identity full",
    "insert into sales.customer (name) values ('a'), ('b')",
    "insert into sales.visit values (1, 1), (2, 2)",
)


async def make_everything(make_topology: MakeTopology, **options: Any) -> Any:
    """Create a topology whose Publisher's tables have every kind of column, constraint and object."""
    topology = await make_topology(**options)
    reader = names.role("app", topology.name)
    for statement in EVERYTHING:
        if "create role" not in statement:
            await topology.execute("pub", statement.replace("{reader}", reader))
    return topology
