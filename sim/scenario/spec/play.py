"""Plays a spec on servers and tells what isolationtester would have printed."""

from __future__ import annotations

import asyncio

from twopc.server import EmbeddedServer, ExternalServer
from twopc.sim.report.history import History
from twopc.sim.scenario.check import from_document
from twopc.sim.scenario.postgres_theatre import PostgresTheatre
from twopc.sim.scenario.run import run
from twopc.sim.scenario.spec import convert
from twopc.sim.scenario.spec.grammar import parse
from twopc.sim.scenario.spec.transcript import Transcript, transcripts
from twopc.sim.scenario.text import Document

#: The database in which PostgreSQL's own test suite plays its specs; some of them name it.
DATABASE = "isolation_regression"

#: What that suite sets for every server and client: how values look in expected outputs.
SETTINGS = {
    "datestyle": "Postgres, MDY",
    "timezone": "America/Los_Angeles",
    "intervalstyle": "postgres_verbose",
}


async def play(text: str, path: str, server: EmbeddedServer | ExternalServer) -> list[Transcript]:
    """What would be printed of every permutation of a spec.

    A spec that names the database of PostgreSQL's test suite is played in one of that name, which must not be
    there; any other one in databases of its own.

    Raises:
        ScenarioError: the spec is wrong, or the server does not take what it sets up.
        ServerError: the server cannot be used.
    """
    loaded = from_document(convert.document(text, path))
    spec = parse(text, Document(path=path, lines=text.splitlines()))
    history = History()
    if DATABASE not in text:
        async with PostgresTheatre(server=server) as theatre:
            await run(loaded, theatre, history)
    else:
        await asyncio.to_thread(server.create_database, DATABASE)
        try:
            dsns = {convert.PUBLISHER: server.superuser_dsn(DATABASE)}
            async with PostgresTheatre(dsns=dsns) as theatre:
                await run(loaded, theatre, history)
        finally:
            await asyncio.to_thread(server.drop_database, DATABASE)
    return list(transcripts(spec, history.records))
