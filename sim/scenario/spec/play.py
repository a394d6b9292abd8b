"""Plays a spec on servers and derives the output that isolationtester would have printed."""

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

#: Database in which PostgreSQL's test suite plays its specs; some of the specs name it.
DATABASE = "isolation_regression"

#: Settings of that suite for servers and clients, on which the format of values in expected outputs depends.
SETTINGS = {
    "datestyle": "Postgres, MDY",
    "timezone": "America/Los_Angeles",
    "intervalstyle": "postgres_verbose",
}


async def play(text: str, path: str, server: EmbeddedServer | ExternalServer) -> list[Transcript]:
    """Play every permutation of a spec and return their transcripts.

    A spec that names the database of PostgreSQL's test suite is played in a database of that name, which must not
    exist; other specs are played in databases of their own.

    Raises:
        ScenarioError: the spec is wrong, or the server refuses its setup.
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
