"""Tables of a scenario on a topology: created, filled, published and subscribed, and removed afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from twopc.errors import ArticleError, ConfigurationError, SubscriptionError
from twopc.names import PREFIX
from twopc.publisher import publication
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.procedures_meaning import name_of
from twopc.sim.scenario.stage import SetUpError
from twopc.sim.scenario.tables import ScenarioTable
from twopc.sim.sessions.scripts import failure, printable, send_script
from twopc.sim.topology import Topology
from twopc.sim.topology.initial import rows_of
from twopc.sql import fragments as f
from twopc.subscriber import initial_load, tables
from twopc.subscriber.distribution_agent import Profile

if TYPE_CHECKING:
    from twopc.sim.merge import MergeTopology

    AnyTopology = Topology | MergeTopology

#: Errors of removing objects that were never created because the setup failed earlier.
_NOT_CREATED = (ConfigurationError, psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName)
#: Prepared transactions other than those of coordinators.
_OTHER_PREPARED = """
select gid from pg_prepared_xacts where database = current_database() and not starts_with(gid, %s)
"""


def _existing(topology: Topology, scenario: Scenario) -> list[str]:
    """Return the nodes whose databases existed before the scenario and are kept."""
    return [name for name in scenario.topology.nodes if not topology.nodes[name].embedded]


async def refuse_existing(topology: Topology, scenario: Scenario) -> None:
    """Raise ConfigurationError if a table of the scenario already exists: a scenario creates and drops its tables,
    and must not drop others.
    """
    for node in _existing(topology, scenario):
        for name in scenario.tables:
            rows = await topology.execute(
                node, "select to_regclass(format('public.%%I', %s::text)) is not null", (name,)
            )
            if rows[0][0]:
                raise ConfigurationError(
                    f"table {name!r} is at {node} already; a scenario makes its own tables, so give "
                    "it a database without them"
                )


async def clear(topology: Topology, scenario: Scenario) -> None:
    """Remove all objects of the scenario from the databases that are kept."""
    nodes = _existing(topology, scenario)
    if not nodes:
        return
    for subscriber in scenario.topology.subscribers:
        with contextlib.suppress(*_NOT_CREATED):
            await topology.unsubscribe(subscriber)
    for key in scenario.procedures:
        name, signature = name_of(key)
        with contextlib.suppress(ArticleError, *_NOT_CREATED):
            await topology.unpublish_procedure(name, signature=signature)
    for name in scenario.tables:
        with contextlib.suppress(*_NOT_CREATED):
            await topology.unpublish(name)
    tables = sql.SQL(", ").join(sql.Identifier("public", name) for name in scenario.tables)
    for node in nodes:
        drop = sql.SQL("drop table if exists {} cascade").format(tables)
        await topology.execute(node, drop.as_string(None))
        for key in scenario.procedures:
            await topology.execute(node, _drop_routine(key).as_string(None))


@contextlib.contextmanager
def blaming(*path: str | int) -> Iterator[None]:
    """Report errors of a server within the context as errors at `path` in the scenario.

    Raises:
        SetUpError: a server or a check of replication has refused something.
    """
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate is None:
            raise
        text = error.diag.message_primary or str(error)
        raise SetUpError(path, f"PostgreSQL says: {text} ({error.sqlstate})") from error
    except (ArticleError, SubscriptionError) as error:
        raise SetUpError(path, str(error)) from error


async def set_up(topology: Topology, scenario: Scenario) -> list[dict[str, Any]]:
    """Create, fill, publish and subscribe the tables, then run the scenario's own SQL.

    Returns:
        The last result of each text of `setup`, see `twopc.sim.sessions.scripts.printable`.
    """
    publisher = scenario.topology.publisher
    await make_tables(topology, scenario)
    for name, procedure in scenario.procedures.items():
        with blaming("procedures", name, "body"):
            await topology.execute(publisher, procedure.body)
    await fill_tables(topology, scenario)
    for name, table in scenario.tables.items():
        with blaming("tables", name):
            await topology.publish(
                name,
                columns=table.published or None,
                row_filter=table.filter,
                propagate=table.propagate.given,
            )
    for key, procedure in scenario.procedures.items():
        with blaming("procedures", key):
            name, signature = name_of(key)
            await topology.publish_procedure(
                name,
                signature=signature,
                type=procedure.type,
                reads=procedure.reads,
                writes=procedure.writes,
                xact_abort=procedure.xact_abort == "on",
            )
    for name in scenario.topology.subscribers:
        if scenario.subscriber(name).joins == "later":
            continue
        await subscribe(topology, scenario, name)
        if scenario.lets_any_client(name):
            await topology.allow_any_client(name)
    return await own_words(topology, "setup", scenario.setup)


async def make_tables(topology: AnyTopology, scenario: Scenario) -> None:
    """Create the scenario's tables at the Publisher, empty."""
    publisher = scenario.topology.publisher
    for name, table in scenario.tables.items():
        with blaming("tables", name, "columns"):
            await topology.execute(publisher, create_table_text(name, table).as_string(None))
    for name, table in scenario.tables.items():
        for at, text in enumerate(table.sql):
            with blaming("tables", name, "sql", at):
                await topology.execute(publisher, text)


async def fill_tables(topology: AnyTopology, scenario: Scenario) -> None:
    """Insert the scenario's rows at the Publisher."""
    publisher = scenario.topology.publisher
    for name, table in scenario.tables.items():
        for at, row in enumerate(table.rows):
            with blaming("tables", name, "rows", at):
                insert = insert_text(name, list(row)).as_string(None)
                await topology.execute(publisher, insert, list(row.values()))


async def own_words(topology: AnyTopology, word: str, texts: Sequence[str]) -> list[dict[str, Any]]:
    """Run the SQL texts of the key `word` in a session with the same settings as the scenario's sessions, and
    return their last results.
    """
    if not texts:
        return []
    printed: list[dict[str, Any]] = []
    dsn = topology.nodes[topology.publisher].dsn
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        for at, text in enumerate(texts):
            with blaming(word, at):
                results = await send_script(connection, text)
                if (error := failure(connection, results)) is not None:
                    raise error
                printed += printable(results[-1:])
    return printed


async def take_down(topology: AnyTopology, scenario: Scenario) -> None:
    """Roll back the transactions that plain sessions have left prepared, and run the scenario's `teardown`."""
    for node in scenario.topology.nodes:
        if topology.nodes[node].embedded:
            for (gid,) in await topology.execute(node, _OTHER_PREPARED, (f"{PREFIX}:",)):
                end = sql.SQL("rollback prepared {}").format(sql.Literal(gid))
                await topology.execute(node, end.as_string(None))
    await own_words(topology, "teardown", scenario.teardown)


async def subscribe(topology: Topology, scenario: Scenario, name: str) -> None:
    """Subscribe one Subscriber with the scenario's settings for it."""
    message = scenario.subscriber(name)
    if message.sync != "automatic":
        with blaming("subscribers", name, "sync"):
            await _copy_rows(topology, scenario, name)
    with blaming("subscribers", name) if name in scenario.subscribers else blaming("tables"):
        await topology.subscribe(
            name,
            sync=message.sync,
            update_mode=message.update,
            filters=message.filter,
            profile=Profile(
                subscription_streams=message.streams,
                commit_batch_size=message.batch,
                skip_errors=message.skip_errors,
            ),
            scripts={table: each.procedures for table, each in scenario.tables.items()},
        )
    for key, procedure in scenario.procedures.items():
        for at, text in enumerate(procedure.at_subscribers):
            with blaming("procedures", key, "at_subscribers", at):
                await topology.execute(name, text)
    for at, text in enumerate(message.sql):
        with blaming("subscribers", name, "sql", at):
            await topology.execute(name, text)
    if message.sql and message.update == "sync tran":
        with blaming("subscribers", name, "sql"):
            await topology.activate(name)  # checks again that our triggers fire first


async def _copy_rows(topology: Topology, scenario: Scenario, name: str) -> None:
    """Copy the Publisher's tables and rows to a Subscriber whose subscription expects them to be present."""
    publisher = topology.nodes[scenario.topology.publisher]
    for article in await publication.articles(await topology.admin(publisher.name)):
        await tables.create_table(await topology.admin(name), article)
        columns = [column.name for column in article.value_columns]
        async with await publisher.connect() as there:
            into = sql.SQL("{} ({})").format(f.table_of(article), f.identifiers(columns))
            await initial_load.copy_in(
                await topology.admin(name), into, rows_of(there, article, columns)
            )


def _drop_routine(key: str) -> sql.Composed:
    name, signature = name_of(key)
    types = sql.SQL("" if signature is None else f"({signature})")
    return sql.SQL("drop routine if exists {}{}").format(sql.Identifier("public", name), types)


def insert_text(table: str, columns: list[str]) -> sql.Composed:
    """Return an INSERT for one row of the file."""
    return sql.SQL("insert into {} ({}) overriding system value values ({})").format(
        sql.Identifier("public", table),
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.SQL(", ").join([sql.Placeholder()] * len(columns)),
    )


def create_table_text(name: str, table: ScenarioTable) -> sql.Composed:
    """Return a CREATE TABLE for a table of the file, with its primary key."""
    parts: list[sql.Composable] = [
        sql.SQL("{} {}").format(sql.Identifier(column), sql.SQL(text))
        for column, text in table.columns.items()
    ]
    if table.key:
        key = sql.SQL(", ").join(map(sql.Identifier, table.key))
        parts.append(sql.SQL("primary key ({})").format(key))
    return sql.SQL("create table {} ({})").format(
        sql.Identifier("public", name), sql.SQL(", ").join(parts)
    )
