"""Sequences used by a table's columns, as identity columns or in their defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, LiteralString

from psycopg import AsyncConnection
from psycopg.rows import class_row

_SEQUENCES = """
select a.attname::text as column, a.atttypid::regtype::text as type, a.attidentity <> '' as is_identity,
       format('%%I.%%I', n.nspname, c.relname) as name, s.seqincrement as step, s.seqcycle as cycles,
       coalesce(pg_sequence_last_value(s.seqrelid), s.seqstart - s.seqincrement) as last
from pg_attribute as a
join pg_sequence as s on s.seqrelid in (
    select d.objid from pg_depend as d
    where d.classid = 'pg_class'::regclass and d.refclassid = 'pg_class'::regclass
      and d.refobjid = a.attrelid and d.refobjsubid = a.attnum and d.deptype = 'i'
    union all
    select d.refobjid from pg_attrdef as f
    join pg_depend as d on d.classid = 'pg_attrdef'::regclass and d.objid = f.oid and d.refclassid = 'pg_class'::regclass
    where f.adrelid = a.attrelid and f.adnum = a.attnum)
join pg_class as c on c.oid = s.seqrelid
join pg_namespace as n on n.oid = c.relnamespace
where a.attrelid = %s::text::regclass
order by a.attnum, c.oid
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSequence:
    """A sequence from which a column draws its values; a default may draw from several."""

    column: str
    type: str
    """Type of the column, without its modifier."""
    is_identity: bool
    """Whether the column is an identity column; an INSERT then needs no privilege on the sequence."""
    name: LiteralString
    """Quoted name of the sequence, with its schema."""
    step: int
    """Difference between one value and the next; negative if the sequence counts down."""
    cycles: bool
    """Whether the sequence restarts after its last value."""
    last: int
    """The last value drawn; one step before the first if none was."""


async def column_sequences(connection: AsyncConnection[Any], table: str) -> list[ColumnSequence]:
    """Return the sequences of a table, in the order of its columns.

    Args:
        connection: of a role with privileges on the sequences: to other roles, a sequence seems to be unused.
        table: quoted, with its schema.
    """
    async with connection.cursor(row_factory=class_row(ColumnSequence)) as cursor:
        await cursor.execute(_SEQUENCES, (table,))
        return await cursor.fetchall()
