"""Tests of the pipeline's benchmark: its report, and the data of its nodes."""

from __future__ import annotations

import json

import pytest

from benchmarks.figures import Figure, report
from benchmarks.pipeline_data import fill, fill_node
from tests.fix_server import Database, MakeDatabase
from twopc.propagation import CommandType, record_values

_COMMANDS = """
select c.type, c.command from msrepl.commands_between(1, '0/0', 'FFFFFFFF/FFFFFFFF') as c
order by c.xact_seqno, c.command_id
"""


def test_how_it_reports(capsys: pytest.CaptureFixture[str]) -> None:
    """A figure without a target is reported, neither as met nor as missed."""
    figure = Figure(name="fold_ratio", value=0.5, unit="", target=None, better="higher")
    report("Pipeline", [figure])
    lines = capsys.readouterr().out.splitlines()
    assert not any("missed" in line for line in lines)
    assert json.loads(lines[-1])["target"] is None


def _rows_of_commands(database: Database) -> set[tuple[str, ...]]:
    rows: dict[bytes, list[bytes]] = {}
    with database.connect() as connection:
        for kind, command in connection.execute(_COMMANDS):
            first, note, *others = record_values(command.encode())
            assert note is not None
            if kind == CommandType.INSERT:
                rows[first] = [first, note, *others]
            else:  # (, note, , key, mask)
                rows[others[1]][1] = note
    return {tuple(each.decode() for each in row) for row in rows.values()}


@pytest.mark.parametrize(
    ("commands", "keys"),
    [pytest.param(2000, 1000, id="each row once"), pytest.param(3000, 700, id="rows often")],
)
def test_the_nodes_hold_what_the_commands_come_to(
    make_database: MakeDatabase, monkeypatch: pytest.MonkeyPatch, commands: int, keys: int
) -> None:
    """The nodes' rows are those that the commands produce, so that the audit compares equal rows."""
    monkeypatch.setattr("benchmarks.pipeline_data.KEYS_MAX", keys)
    log, node = make_database(), make_database()
    fill(log.dsn, commands)
    fill_node(node.dsn, commands)
    with node.connect() as connection:
        rows = connection.execute("select id::text, note, n::text from account").fetchall()
    assert len(rows) == keys
    assert set(rows) == _rows_of_commands(log)


def test_nodes_of_many_commands(fresh_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of a command's number and the factor may exceed the range of an integer."""
    monkeypatch.setattr("benchmarks.pipeline_data.KEYS_MAX", 100)
    fill_node(fresh_database.dsn, 100_000_000)
    with fresh_database.connect() as connection:
        assert connection.execute("select count(*) from account").fetchone() == (100,)
