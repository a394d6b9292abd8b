"""Advisory locks by which one process of ours at a time performs a task, although any role may take such locks.

A name has any number of keys. A session takes the first key that no other role's session holds, and is alone if no
other session of ours holds any of the name's keys. Sessions of other roles may hold keys for ever; they only make
ours use the next one.
"""

from __future__ import annotations

from typing import LiteralString

_HELD: LiteralString = """
with place(class) as (
    select hashtext({name})
), held as (
    select l.objid::bigint::integer as n, {ours} as is_ours, l.pid = pg_backend_pid() as is_mine,
        'pid ' || l.pid || ', ' || coalesce(nullif(a.application_name, ''), 'without application_name')
            || ', of role ' || a.usename as holder
    from place
    join pg_locks as l on l.classid::bigint = place.class::bigint & 4294967295 and l.objid::bigint < 2147483648
    join pg_stat_activity as a on a.pid = l.pid
    where l.locktype = 'advisory' and l.granted and l.objsubid = 2
      and l.database = (select d.oid from pg_database as d where d.datname = current_database())
)
"""
_FREE: LiteralString = """
, stranger as (select h.n, h.holder from held as h where not h.is_ours and not h.is_mine)
select place.class, key.n, (select string_agg(distinct s.holder, '; ') from stranger as s)
from place, generate_series(0, (select count(*) from stranger)) as key(n)
where not exists (select from stranger as s where s.n = key.n)
order by key.n limit 1
"""
_OTHERS: LiteralString = """
select place.class, held.n, held.holder from place, held where held.is_ours and not held.is_mine order by held.n
"""


def free_key(name: LiteralString, own: LiteralString) -> LiteralString:
    """Return a query of one row: the key to take (two integers), and the holders of keys of this name that are not
    ours, or NULL.

    Args:
        name: an expression of type text.
        own: a condition on `a.usesysid`, true for the roles that may perform the task.
    """
    return _text(_HELD + _FREE, name, own)


def others(name: LiteralString, own: LiteralString) -> LiteralString:
    """Return a query of the keys that other sessions of ours hold, and of their holders; see `free_key`."""
    return _text(_HELD + _OTHERS, name, own)


def _text(text: LiteralString, name: LiteralString, own: LiteralString) -> LiteralString:
    return text.replace("{ours}", own).replace("{name}", name)
