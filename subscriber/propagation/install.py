"""Create, regenerate and drop the objects that propagation needs at a Subscriber.

Every function takes an administrator's connection (a superuser's) and does its work in one transaction. `texts`
defines the objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.rows import tuple_row

from twopc import names
from twopc.articles import Article
from twopc.errors import SubscriptionError
from twopc.log import get_logger
from twopc.propagation import OPERATIONS, Propagation, parameters
from twopc.sql import fragments as f
from twopc.sql.describe import describe
from twopc.sql.render import render
from twopc.sql.table_role import drop_text
from twopc.subscriber.objects import owner_role
from twopc.subscriber.propagation.calls import SubscriberSide
from twopc.subscriber.propagation.custom import CustomRoutine, find_routine
from twopc.subscriber.propagation.images import drop_images, fit_images
from twopc.subscriber.propagation.texts import VALUES_MAX, PropagationTexts, drop_texts
from twopc.subscriber.table_changes import grant_sequences

Connection = AsyncConnection[Any]

_log = get_logger(__name__)

# A call may hold a NULL for a column that did not change, which a domain may refuse.
_DOMAINS = """
with recursive behind(attname, oid, typmod) as (
    select a.attname::text, t.typbasetype, t.typtypmod
    from pg_attribute a
    join pg_type t on t.oid = a.atttypid and t.typtype = 'd'
    where a.attrelid = %(table)s::regclass and a.attnum > 0 and not a.attisdropped
  union all
    select b.attname, t.typbasetype, t.typtypmod
    from behind b
    join pg_type t on t.oid = b.oid and t.typtype = 'd'
)
select b.attname, format_type(b.oid, b.typmod)
from behind b
join pg_type t on t.oid = b.oid and t.typtype <> 'd'
"""


# Objects of an article to drop: its default procedures, and the role of a table that no other article uses.
_REGISTERED = """
select case when p.is_default and to_regprocedure(p.signature) is not null then p.signature end,
       p.dest_schema, p.article,
       exists (select from msrepl.msreplication_procedures o
               where (o.dest_schema, o.article) = (p.dest_schema, p.article) and o.article_id <> p.article_id)
from msrepl.msreplication_procedures p
where p.article_id = %s
"""


async def install(connection: Connection, agent: str) -> None:
    """Create the objects needed before a Subscriber's first article: positions, and shared functions.

    Idempotent.

    Args:
        agent: the role of distribution agents.
    """
    async with connection.transaction():
        texts = install_texts(owner_role(connection.info.dbname), agent)
        await connection.execute(";\n".join(texts).encode())


def install_texts(role: str, agent: str) -> list[str]:
    """Return the statements that `install` executes; `role` becomes the owner of the objects."""
    owner, to = sql.Identifier(role), sql.Identifier(agent)
    return [
        render(
            "twopc.subscriber",
            "create_owner",
            owner=owner,
            owner_text=sql.Literal(role),
            schema=sql.Identifier(names.SCHEMA),
        ),
        render(
            "twopc.subscriber",
            "create_calls_role",
            role=sql.Identifier(names.calls_role(role)),
            role_text=sql.Literal(names.calls_role(role)),
        ),
        render("twopc.subscriber", "propagation_catalog", owner=owner, agent=to),
        render("twopc.subscriber", "replraiserror", owner=owner),
        render("twopc.subscriber", "raise_unfit_call", owner=owner, agent=to),
        render("twopc.subscriber", "is_default_procedure", owner=owner, agent=to),
        render("twopc.subscriber", "fires_for_agents", owner=owner, agent=to),
        render("twopc.subscriber", "move_position", owner=owner, agent=to),
        render("twopc.subscriber", "refuse_command", owner=owner, agent=to),
        render("twopc.subscriber", "apply_net", owner=owner, agent=to),
    ]


async def create(
    connection: Connection,
    article: Article,
    article_id: int,
    propagation: Propagation,
    agent: str,
    *,
    procedures: Mapping[str, str] | None = None,
    scripts: Sequence[str] = (),
) -> list[str]:
    """Create the procedures of one article, after its table; existing objects of the article are replaced.

    Args:
        agent: the role of distribution agents, which may then call the procedures.
        procedures: names of the default procedures by operation, as the Publisher chose them.
        scripts: the user's own procedures, executed once the types exist that they may need.

    Returns:
        The signatures of default procedures that users had replaced, and that are the default again;
        the log names them too.

    Raises:
        SubscriptionError: a custom procedure is missing or has other parameters, a routine of the
            user's has the signature of a default procedure, or row security would hide rows from agents.
            Nothing was changed.
    """
    async with connection.transaction():
        _check_width(article, propagation)
        replaced = await _replaced(connection, article_id)
        await _drop(connection, article_id)
        place = await _place(connection, article, agent)
        texts = PropagationTexts(article, article_id, propagation, place, procedures)
        await fit_images(connection, texts)
        for text in (";\n".join(texts.types()), *scripts):
            await connection.execute(text.encode())
        routines: dict[str, CustomRoutine] = {}
        for operation in OPERATIONS:
            method = propagation.method(operation)
            if method.procedure is not None:
                routines[operation] = await find_routine(
                    connection, article, operation, method, texts.arguments(operation)
                )
            elif texts.is_called(operation):
                await _check_free(connection, article, texts.signature(operation))
        place = replace(place, routines=routines)
        texts = PropagationTexts(article, article_id, propagation, place, procedures)
        await connection.execute(";\n".join(texts.all()).encode())
        await grant_sequences(connection, article, texts.role)
    if replaced:
        _log.warning(
            "default procedures that were replaced are the default again",
            article=article.name,
            database=connection.info.dbname,
            procedures=", ".join(replaced),
        )
    return replaced


async def regenerate(
    connection: Connection,
    article: Article,
    article_id: int,
    propagation: Propagation,
    agent: str,
    *,
    procedures: Mapping[str, str] | None = None,
) -> list[str]:
    """Make the procedures of an article fit its table again; see `create`.

    Default procedures that users replaced are overwritten; their signatures are returned.
    """
    return await create(connection, article, article_id, propagation, agent, procedures=procedures)


async def drop(connection: Connection, article_id: int) -> None:
    """Drop the procedures of one article, and the role of its table if no other article uses the table.

    Custom procedures stay, except those that take images of the article's rows: the types of their parameters
    are dropped.
    """
    async with connection.transaction():
        tables = await _drop(connection, article_id)
        await drop_images(connection, article_id)
        for schema, table in tables:
            text = drop_text(owner_role(connection.info.dbname), schema, table)
            await connection.execute(text.encode())


async def _drop(connection: Connection, article_id: int) -> set[tuple[str, str]]:
    """Drop the objects of an article except its image types; return the tables that no other article uses."""
    cursor = connection.cursor(row_factory=tuple_row)
    async with connection.transaction():
        await cursor.execute(_REGISTERED, (article_id,))
        registered = await cursor.fetchall()
        signatures = [row[0] for row in registered if row[0] is not None]
        await connection.execute(";\n".join(drop_texts(article_id, signatures)).encode())
    return {(schema, table) for _, schema, table, shared in registered if not shared}


async def drop_all(connection: Connection) -> None:
    """Drop the procedures of every article; do nothing if there are none."""
    cursor = connection.cursor(row_factory=tuple_row)
    await cursor.execute("select to_regclass('msrepl.msreplication_procedures') is not null")
    if await cursor.fetchone() != (True,):
        return
    await cursor.execute("select distinct article_id from msrepl.msreplication_procedures")
    for (article_id,) in await cursor.fetchall():
        await drop(connection, article_id)


async def _place(connection: Connection, article: Article, agent: str) -> SubscriberSide:
    table = {"table": f.table_of(article).as_string(None)}
    cursor = connection.cursor(row_factory=tuple_row)
    await cursor.execute(
        "select pg_get_userbyid(c.relowner), c.relrowsecurity and not (r.rolbypassrls or r.rolsuper) "
        "from pg_class c, pg_roles r where c.oid = %(table)s::regclass and r.rolname = %(agent)s",
        {**table, "agent": agent},
    )
    owner = await cursor.fetchone()
    if owner is None:
        raise SubscriptionError(f"role {agent!r} of distribution agents does not exist: create it")
    if owner[1]:
        raise SubscriptionError(
            f"table {article.name} at {connection.info.dbname!r} has row level security, which would hide "
            f"rows from distribution agents: ALTER ROLE {agent} BYPASSRLS, or take it off the table"
        )
    await cursor.execute(_DOMAINS, table)
    return SubscriberSide(
        owner=owner_role(connection.info.dbname),
        agent=agent,
        table_owner=owner[0],
        held=await describe(connection, article.schema, article.table),
        types=dict(await cursor.fetchall()),
    )


def _check_width(article: Article, propagation: Propagation) -> None:
    for operation in OPERATIONS:
        method = propagation.method(operation)
        if method.format not in ("SQL", "NONE"):
            count = len(parameters(article, operation, method.format))
            if count > VALUES_MAX:
                raise SubscriptionError(
                    f"{article.name}: {method.format} for {operation} brings {count} values, PostgreSQL "
                    f"takes {VALUES_MAX}: choose another format, or publish fewer columns"
                )


async def _replaced(connection: Connection, article_id: int) -> list[str]:
    """Return the signatures of default procedures whose source has changed since their creation."""
    cursor = connection.cursor(row_factory=tuple_row)
    await cursor.execute(
        "select q.oid::regprocedure::text from msrepl.msreplication_procedures p "
        "join pg_proc q on q.oid = to_regprocedure(p.signature) "
        "where p.article_id = %s and p.is_default and p.digest <> md5(q.prosrc) order by 1",
        (article_id,),
    )
    return [row[0] for row in await cursor.fetchall()]


async def _check_free(connection: Connection, article: Article, signature: str) -> None:
    cursor = connection.cursor(row_factory=tuple_row)
    await cursor.execute("select to_regprocedure(%s)::text", (signature,))
    row = await cursor.fetchone()
    if row is not None and row[0] is not None:
        raise SubscriptionError(
            f"function {row[0]} of {connection.info.dbname!r} has the name and the parameters of a default "
            f"procedure of {article.name}: drop or rename it, or name it as the custom procedure"
        )
