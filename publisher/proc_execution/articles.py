"""Routines of a database as articles: search, description, and the rows of ``msrepl.sysprocarticles``.

Every function takes an administrator's connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, errors
from psycopg.rows import class_row, dict_row

from twopc import names
from twopc.errors import ArticleError
from twopc.proc_execution import PROC_SCHEMA, Argument, ProcArticle
from twopc.publisher.proc_execution.texts import ServerSignature
from twopc.sql.catalog_texts import full_names

Connection = AsyncConnection[Any]

#: Pseudo-types that arguments of a routine may have.
_POLYMORPHIC = (
    "anyelement",
    "anyarray",
    "anynonarray",
    "anyenum",
    "anyrange",
    "anymultirange",
    "anycompatible",
    "anycompatiblearray",
    "anycompatiblenonarray",
    "anycompatiblerange",
    "anycompatiblemultirange",
)
#: Maximum number of arguments: the function that records a call takes the settings and all of them.
_GIVEN_MAX = 99


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogRoutine:
    """A routine as described by the catalogs."""

    objid: int
    schema: str
    name: str
    kind: str
    language: str
    volatile: bool
    strict: bool
    returns_set: bool
    result: str
    """Result type; empty for a procedure."""
    declared: str
    """Arguments with their defaults."""
    identity: str
    arguments: list[dict[str, str]]
    pseudo: list[str]
    """Argument types that are pseudo-types."""
    source: str
    definition: str
    """CREATE statement; empty for routines without one, such as aggregates."""
    head: str
    """Beginning of the definition, up to the opening parenthesis of the arguments."""

    @property
    def signature(self) -> ServerSignature:
        """Signature for `RoutineTexts`."""
        return ServerSignature(
            arguments=self.declared, result=self.result, head=self.head, strict=self.strict
        )


_ROUTINES = """
select p.oid::bigint as objid, n.nspname::text as schema, p.proname::text as name, p.prokind::text as kind,
       l.lanname::text as language, p.provolatile = 'v' as volatile, p.proisstrict as strict,
       p.proretset as returns_set, coalesce(pg_get_function_result(p.oid), '') as result,
       pg_get_function_arguments(p.oid) as declared, pg_get_function_identity_arguments(p.oid) as identity,
       msrepl.proc_described(p.oid) as arguments,
       array(select format_type(t.oid, null) from pg_type t
             where t.oid = any (coalesce(p.proallargtypes, p.proargtypes::oid[])) and t.typtype = 'p') as pseudo,
       coalesce(p.prosrc, '') as source,
       case when p.prokind in ('p', 'f') then rtrim(pg_get_functiondef(p.oid), E'\\n') else '' end as definition,
       format('CREATE OR REPLACE %%s %%I.%%I(', case p.prokind when 'p' then 'PROCEDURE' else 'FUNCTION' end,
              n.nspname, p.proname) as head
from pg_proc p join pg_namespace n on n.oid = p.pronamespace join pg_language l on l.oid = p.prolang
where (n.nspname, p.proname) = (%(schema)s, %(name)s)
  and (%(signature)s::text is null
       or %(signature)s in (pg_get_function_identity_arguments(p.oid), oidvectortypes(p.proargtypes))
       or p.oid = %(meant)s::oid)
order by identity
"""

_STORED = """
select article_id, schema, name, kind::text as kind, arguments, returns_set, type, reads, writes, xact_abort,
       commits, replicate_ddl, definition, obstacle, warnings
from msrepl.sysprocarticles
"""


async def find_routine(
    connection: Connection, schema: str, name: str, signature: str | None
) -> CatalogRoutine:
    """Return the routine with a name and argument types.

    Raises:
        ArticleError: there is no such routine, or there are several (which are listed).
    """
    meant = None if signature is None else await _oid_by_types(connection, schema, name, signature)
    async with (
        full_names(connection),
        connection.cursor(row_factory=class_row(CatalogRoutine)) as result,
    ):
        await result.execute(
            _ROUTINES,
            {
                "schema": schema,
                "name": name,
                "signature": signature,
                "meant": meant,
            },
        )
        routines = await result.fetchall()
    if not routines:
        of = "" if signature is None else f" with the arguments ({signature})"
        raise ArticleError(
            f"there is no procedure or function {names.article_name(schema, name)}{of} (21219)"
        )
    if len(routines) > 1:
        listed = "; ".join(f"({each.identity})" for each in routines)
        raise ArticleError(
            f"{names.article_name(schema, name)} is {len(routines)} routines: say which by its signature, "
            f"one of {listed}"
        )
    return routines[0]


async def _oid_by_types(
    connection: Connection, schema: str, name: str, signature: str
) -> int | None:
    """Return the OID of the routine with these argument types, in any spelling of the types; None if there is none."""
    text = "select to_regprocedure(quote_ident(%s) || '.' || quote_ident(%s) || '(' || %s || ')')::oid::bigint"
    try:
        async with connection.transaction():
            row = await (await connection.execute(text, (schema, name, signature))).fetchone()
    except errors.SyntaxError:  # the signature contains modes or names
        return None
    return None if row is None else row[0]


def check(routine: CatalogRoutine) -> None:
    """Check that a routine can be an article of some type.

    Raises:
        ArticleError: names the reason why it cannot.
    """
    where = f"{names.article_name(routine.schema, routine.name)}({routine.identity})"
    if routine.kind not in ("p", "f") or routine.result in ("trigger", "event_trigger"):
        raise ArticleError(
            f"{where} is no procedure or function that can be called (21219): aggregates, window functions "
            "and trigger functions cannot be published"
        )
    if routine.language in ("c", "internal"):
        raise ArticleError(
            f"{where} has no text that could be carried to a Subscriber (21004): its language is "
            f"{routine.language}"
        )
    if routine.schema in (names.SCHEMA, PROC_SCHEMA, names.LINK_SCHEMA, "pg_catalog"):
        raise ArticleError(f"{where} belongs to schema {routine.schema}, which is not published")


def check_calls(routine: CatalogRoutine) -> None:
    """Check that calls of a routine can be repeated at a Subscriber.

    Raises:
        ArticleError: names the reason why they cannot.
    """
    where = f"{names.article_name(routine.schema, routine.name)}({routine.identity})"
    if routine.kind == "f" and not routine.volatile:
        raise ArticleError(
            f"function {where} is not VOLATILE: it changes nothing, so there is no call to carry"
        )
    strange = [each for each in routine.pseudo if each not in _POLYMORPHIC]
    if strange:
        raise ArticleError(
            f"{where} takes a {strange[0]}, which has no value that could be carried"
        )
    if routine.result in ("record", "SETOF record") and not any(
        each["mode"] in "obt" for each in routine.arguments
    ):
        raise ArticleError(
            f"function {where} returns {routine.result} whose columns only a caller knows: declare them as "
            "OUT arguments or RETURNS TABLE"
        )
    if sum(each["mode"] in "ibv" for each in routine.arguments) > _GIVEN_MAX:
        raise ArticleError(f"{where} takes more than {_GIVEN_MAX} arguments")


def arguments_of(routine: CatalogRoutine) -> tuple[Argument, ...]:
    """Return the arguments of a routine as values."""
    return tuple(Argument(**each) for each in routine.arguments)


async def check_tables(connection: Connection, declared: Sequence[str]) -> None:
    """Check that names are those of articles.

    Raises:
        ArticleError: names the first one that is not, and the existing articles.
    """
    cursor = await connection.execute(
        "select source_schema, source_object from msrepl.sysarticles order by 1, 2"
    )
    known = [names.article_name(schema, table) for schema, table in await cursor.fetchall()]
    for each in declared:
        if each not in known:
            raise ArticleError(
                f"{each!r} is no published table: reads and writes name articles, which are "
                f"{', '.join(known) or 'none'}"
            )


async def stored(
    connection: Connection, condition: str, *arguments: Any
) -> tuple[ProcArticle, ...]:
    """Return the articles that satisfy a condition (the end of a query)."""
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(f"{_STORED} {condition}".encode(), arguments or None)
        return tuple([ProcArticle.from_json(row) for row in await cursor.fetchall()])
