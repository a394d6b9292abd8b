"""Tests of the README's commands at scale, verbatim, on a running topology."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from twopc.sim.cli import app
from twopc.sim.topology import Topology

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

ROOT = Path(__file__).parents[2]
#: The session of the tests, in place of one for each command.
SESSION = ["--master", "local[2]", "--conf", "spark.driver.memory=1g"]


def commands() -> list[list[str]]:
    """Return the commands of the section, without the prompt."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("At scale\n")[2]
    block = re.findall(r"```console\n(.*?)```", text, re.DOTALL)[0]
    return [shlex.split(line)[2:] for line in block.replace("\\\n", "").splitlines()]


async def test_the_commands_run(
    make_topology: Callable[..., Awaitable[Topology]],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The commands run consecutively, with one seed instead of twenty."""
    topology = await make_topology(subscribers=("north", "south"))
    await topology.execute("pub", "create table account (id int primary key, balance int)")
    await topology.execute("pub", "insert into account select n, 100 from generate_series(1, 5) n")
    await topology.publish("account")
    for name in topology.subscribers:
        await topology.subscribe(name)
    async with topology.transaction("north") as transaction:
        await transaction.execute("update account set balance = balance - 1 where id = 1")
    await topology.sync()
    for variable, node in (("DIST", "distribution"), ("PUB", "pub"), ("NORTH", "north"), ("SOUTH", "south")):  # fmt: skip
        monkeypatch.setenv(variable, topology.node(node).dsn)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")

    async def typed(words: list[str]) -> Any:
        expanded = [re.sub(r"\$(\w+)", lambda found: os.environ[found[1]], word) for word in words]
        expanded = ["1" if word == "1..20" else word for word in expanded]
        more = [] if words[0] == "archive" else SESSION
        return await asyncio.to_thread(CliRunner().invoke, app, [*expanded, *more])

    sweep, accumulate, show, *others = commands()
    found = await typed(sweep)
    assert found.exit_code == 0, found.output
    assert "2 trials in" in found.stdout
    found = await typed(accumulate)
    assert found.exit_code == 0, found.output
    assert "pub: 1 transaction, 1 command" in found.stdout
    found = await typed(show)
    assert "article 1 account   1 shape   columns id balance msrepl_tran_version" in found.stdout
    for words in others:
        found = await typed(words)
        # no witness is installed, which the audit reports
        assert found.exit_code == (3 if words[0] == "audit" else 0), found.output
