"""The user's own procedures and functions: whether they exist, and accept the arguments of a call.

A custom procedure must check by itself that it affected a row: without
``perform msrepl.sp_msreplraiserror(20598)``, a missing row goes unnoticed, as in the original. It must not end the
transaction, which belongs to the agent. A name without a schema is looked up in the schema of the destination
table, then in public.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import AsyncConnection

from twopc.articles import Article
from twopc.errors import SubscriptionError
from twopc.lexer import ends_transaction
from twopc.propagation import Method

Connection = AsyncConnection[Any]

# An argument may be declared with the domain itself, or with the type behind it.
_CANDIDATES = """
with recursive wanted(place, type, oid) as (
    select w.place, w.type, to_regtype(w.type)::oid
    from unnest(%(types)s::text[]) with ordinality as w(type, place)
), base(oid, behind) as (
    select t.oid, t.oid from pg_type t
    where t.typtype <> 'd' and t.oid in (select oid from wanted)
  union
    select t.oid, b.behind from base b join pg_type t on t.typbasetype = b.oid and t.typtype = 'd'
)
select n.nspname::text as schema,
       format('%%I.%%I', n.nspname, p.proname) as name,
       p.oid::regprocedure::text as signature,
       p.prokind::text as kind,
       pg_get_function_identity_arguments(p.oid) as arguments,
       p.prosrc as source,
       l.lanname::text as language,
       cardinality(%(types)s::text[]) between p.pronargs - p.pronargdefaults and p.pronargs
         and coalesce(p.proargmodes, '{}') <@ '{i}'
         and not exists (
            select from unnest(p.proargtypes::oid[]) with ordinality as a(oid, place)
            join wanted w using (place)
            where a.oid <> w.oid and not exists (select from base b where (b.oid, b.behind) = (a.oid, w.oid))
         ) as fits
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
join pg_language l on l.oid = p.prolang
where p.prokind in ('f', 'p') and p.proname = %(name)s and n.nspname = any (%(schemas)s)
order by array_position(%(schemas)s::text[], n.nspname::text), fits desc, p.oid
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomRoutine:
    """A procedure or function written by the user."""

    schema: str
    name: str
    """Quoted name, qualified with the schema."""
    signature: str
    """Signature in the form that regprocedure prints."""
    is_procedure: bool
    """Whether the routine is a procedure, to be called with CALL."""


async def find_routine(
    connection: Connection,
    article: Article,
    operation: str,
    method: Method,
    arguments: Sequence[tuple[str, str]],
) -> CustomRoutine:
    """Return the user's procedure for one operation of an article.

    Args:
        arguments: name and SQL type of each argument of a call of this format.

    Raises:
        SubscriptionError: the procedure does not exist, has other parameters, or ends transactions.
    """
    assert method.procedure is not None
    expected = ", ".join(f"{name} {kind}" for name, kind in arguments)
    where = (
        f"procedure {method.procedure} for {operation} of {article.name} ({method.format}) at "
        f"{connection.info.dbname!r}"
    )
    parts = await _name_parts(connection, method.procedure, where)
    schemas = [parts[0]] if len(parts) == 2 else list(dict.fromkeys([article.schema, "public"]))
    cursor = await connection.execute(
        _CANDIDATES,
        {"types": [kind for _, kind in arguments], "name": parts[-1], "schemas": schemas},
    )
    rows = await cursor.fetchall()
    fitting = next((row for row in rows if row[7]), None)
    if fitting is None:
        if not rows:
            raise SubscriptionError(
                f"{where} does not exist in schema {' or '.join(schemas)}: create it with the parameters "
                f"({expected})"
            )
        raise SubscriptionError(
            f"{where} has the parameters ({rows[0][4]}); this call brings ({expected})"
        )
    schema, name, signature, kind, _, source, language, _ = fitting
    ending = ends_transaction(source) if language == "plpgsql" else ""
    if ending:
        raise SubscriptionError(
            f"{where} ends the transaction ({ending}): the agent commits whole transactions of "
            "the Publisher; explicit transactions must not be used in custom procedures"
        )
    return CustomRoutine(schema=schema, name=name, signature=signature, is_procedure=kind == "p")


async def _name_parts(connection: Connection, text: str, where: str) -> list[str]:
    try:
        async with connection.transaction():
            cursor = await connection.execute("select parse_ident(%s)", (text,))
            row = await cursor.fetchone()
    except psycopg.errors.InvalidParameterValue as error:
        raise SubscriptionError(f"{where}: {error.diag.message_primary}") from error
    parts = list(row[0]) if row is not None else []
    if len(parts) not in (1, 2):
        raise SubscriptionError(f"{where}: write its name as name or schema.name")
    return parts
