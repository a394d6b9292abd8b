"""Advisory locks by which one process of ours at a time does something, though any role may take any of them.

A name has several keys. A session takes the first that no stranger holds, and is alone if no other session of ours
has any of them. Strangers may keep keys for ever; they only move ours to the next one.
"""

from __future__ import annotations

from typing import LiteralString

_KEYS = "64"

_HELD: LiteralString = """
with key(key, n) as (
    select hashtextextended(name || case n when 0 then '' else ' ' || n end, 0), n
    from (select {name}) as s(name), generate_series(0, {keys} - 1) as n
), held as (
    select key.key, key.n, {ours} as is_ours, l.pid = pg_backend_pid() as is_mine,
        'pid ' || l.pid || ', ' || coalesce(nullif(a.application_name, ''), 'without application_name')
            || ', of role ' || a.usename as holder
    from pg_locks as l
    join pg_stat_activity as a on a.pid = l.pid
    join key on key.key = (l.classid::bigint << 32 | l.objid::bigint)
    where l.locktype = 'advisory' and l.granted and l.objsubid = 1
      and l.database = (select d.oid from pg_database as d where d.datname = current_database())
)
"""
_FREE: LiteralString = """
select key.key, (select string_agg(distinct h.holder, '; ') from held as h where h.n < key.n)
from key where not exists (select from held as h where h.key = key.key and not h.is_ours and not h.is_mine)
order by key.n limit 1
"""
_OTHERS: LiteralString = """
select held.key, held.holder from held where held.is_ours and not held.is_mine order by held.n
"""


def free_key(name: LiteralString, ours: LiteralString) -> LiteralString:
    """A query of the key to take, and of the strangers who hold those before it; no row: they hold all.

    Args:
        name: an expression of type text.
        ours: a condition on `a.usesysid`, which holds for the roles that may do what the lock is for.
    """
    return _text(_HELD + _FREE, name, ours)


def others(name: LiteralString, ours: LiteralString) -> LiteralString:
    """A query of the keys that other sessions of ours hold, and of who they are; see `free_key`."""
    return _text(_HELD + _OTHERS, name, ours)


def _text(text: LiteralString, name: LiteralString, ours: LiteralString) -> LiteralString:
    return text.replace("{ours}", ours).replace("{keys}", _KEYS).replace("{name}", name)
