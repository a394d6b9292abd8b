"""Tests of replaying a recorded run: on servers, on the model, and by Spark's tasks."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from twopc.errors import ConfigurationError
from twopc.sim.cli import app
from twopc.sim.replay.lanes import Sync
from twopc.sim.replay.runs import RunReplay
from twopc.sim.report.history import read
from twopc.sim.spark import source
from twopc.sim.spark.archive.calls import calls
from twopc.sim.spark.replay.runs import replay_by_tasks, replay_here
from twopc.sim.spark.sweep import grid
from twopc.sim.spark.sweep.trial import simulated

HERE = Path(__file__).parent
SAID = HERE / "said.yaml"
LOAD = HERE.parent / "sweep/small.yaml"
NONE = {"rows": 0, "rowcount": 0, "outcome": 0, "error": 0, "state": 0}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Record the histories of an order and of a load."""
    made = {}
    for name, file in (("said", SAID), ("load", LOAD)):
        _, records = simulated(grid.with_settings(grid.read(str(file)), ()), 3)
        made[name] = tmp_path_factory.mktemp("runs") / name / "run/history.jsonl"
        made[name].parent.mkdir(parents=True)
        made[name].write_text("".join(f"{each.line()}\n" for each in records), encoding="utf-8")
    return made


def twopc(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["replay", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


async def test_on_servers(logs: dict[str, Path], tmp_path: Path) -> None:
    """In the recorded order every answer is the same; without it, each difference is named with its key."""
    folder = logs["said"].parent
    code, text = await asyncio.to_thread(twopc, folder, "--out", tmp_path / "same")
    assert (code, "divergence: none" in text) == (0, True), text
    assert "replayed 2 orders on postgres, --sync rows: 5 transactions, 14 statements" in text
    assert "skew: the largest order had 4 of 5 transactions (80%)" in text
    again = read(tmp_path / "same/history.jsonl")
    assert {each.order for each in again if each.order} == {"one after the other", "alone"}

    words = (folder, "--sync", "off", "--order", "one after the other", "--out", tmp_path / "off")
    code, text = await asyncio.to_thread(twopc, *words, "--json")
    assert code == 1
    told = json.loads(text.splitlines()[-1])
    assert told == json.loads((tmp_path / "off/report.json").read_text(encoding="utf-8"))
    assert pq.read_table(tmp_path / "off/divergences").num_rows == sum(told["classes"].values())
    by_call: dict[str, list[dict[str, Any]]] = {}
    for each in told["divergences"]:
        by_call.setdefault(each["call"].split(",")[1].split(":")[0].strip(), []).append(each)
    # Nothing is delivered: the other session's change cannot be read, and the second writer
    # is refused.
    (seen,) = by_call["b_read"]
    assert (seen["class"], seen["session"]) == ("rows", "ben")
    assert (seen["expected"], seen["actual"]) == ("balance '90'", "balance '100'")
    (counted,) = by_call["b_count"]
    assert (counted["expected"], counted["actual"]) == ("accounts '2'", "accounts '1'")
    (gone,) = by_call["b_gone"]
    assert (gone["class"], gone["expected"], gone["actual"]) == ("rowcount", "1 row", "0 rows")
    refused = [
        each
        for each in told["divergences"]
        if each["class"] == "outcome" and each["actual"] == "rejected: version_mismatch"
    ]
    assert [(each["article"], each["key"]) for each in refused] == [("account", ["1"])]
    states = [each for each in told["divergences"] if each["class"] == "state"]
    assert {tuple(each["key"]) for each in states} >= {("1",)}


def test_an_error(logs: dict[str, Path], tmp_path: Path) -> None:
    """A statement that failed, or fails in the replay, is not a conflict."""
    text = SAID.read_text(encoding="utf-8").replace("balance - 90", "balance - 80")
    changed = tmp_path / "said.yaml"
    changed.write_text(text, encoding="utf-8")
    with pytest.raises(
        ConfigurationError, match="is not the scenario that was recorded: ben said at b_"
    ):
        replay_here(logs["said"], RunReplay(on="model"), scenario=changed)
    _, records = simulated(grid.with_settings(grid.read(str(changed)), ()), 3)
    log = tmp_path / "history.jsonl"
    log.write_text("".join(f"{each.line()}\n" for each in records), encoding="utf-8")
    report = replay_here(log, RunReplay(on="model", sync=Sync.off))
    failed = [each for each in report.shown(50) if each["class"] == "error"]
    assert [(each["expected"], each["actual"]) for each in failed] == [("error: 22012", "ok")]
    assert failed[0]["call"].startswith("one after the other, b_share: select 100 / (balance - 80)")


def test_a_load(logs: dict[str, Path]) -> None:
    report = replay_here(logs["load"], RunReplay(on="model"))
    assert report.classes == {"rowcount": 0, "outcome": 0, "error": 0, "state": 0}
    assert report.counts["transactions"] > 10
    assert "not examined" in report.lines(limit=0)[2]
    other = replay_here(logs["load"], RunReplay(on="model", sync=Sync.off))
    assert other.classes["outcome"] > 0
    with pytest.raises(
        ConfigurationError, match="a load's transactions are carried out as fast as can"
    ):
        replay_here(logs["load"], RunReplay(on="model", speed=2))


@pytest.mark.parametrize("sync", [Sync.rows, Sync.session])
def test_at_a_pace(logs: dict[str, Path], sync: Sync) -> None:
    """In virtual time a replay at a pace has the same report."""
    manner = RunReplay(on="model", sync=sync, speed=0.1)
    fast = RunReplay(on="model", sync=sync)
    assert replay_here(logs["said"], manner).shown(50) == replay_here(logs["said"], fast).shown(50)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_here_and_by_tasks(logs: dict[str, Path], spark: SparkSession) -> None:
    """A replay in this process and one by Spark's tasks have the same report."""
    for name, sync in (("said", Sync.off), ("load", Sync.rows)):
        manner = RunReplay(on="model", sync=sync)
        here = replay_here(logs[name], manner).as_json(limit=1000, repro="")
        by_tasks = replay_by_tasks(logs[name], spark, manner).as_json(limit=1000, repro="")
        assert here | {"seconds": 0} == by_tasks | {"seconds": 0}
        assert here["left_out"] == 0
        assert bool(here["divergences"]) == (sync is Sync.off)
    with pytest.raises(ConfigurationError, match="the run has no order 'another' to replay"):
        replay_by_tasks(logs["said"], spark, RunReplay(on="model"), order="another")

    found = calls(source.read(spark, "history", path=str(logs["said"])))
    rows = found.where("case = 'one after the other'").orderBy("end_seq").collect()
    told = [
        (each["session"], each["tx"], each["call"], each["step"], each["sql"][:6]) for each in rows
    ]
    assert told == [
        ("ann", 1, 1, "a_begin", "begin"), ("ann", 1, 2, "a_write", "update"),
        ("ann", 1, 3, "a_new", "insert"), ("ann", 1, 4, "a_end", "commit"),
        ("ben", 2, 1, "b_begin", "begin"), ("ben", 2, 2, "b_read", "select"),
        ("ben", 2, 3, "b_count", "select"), ("ben", 2, 4, "b_write", "update"),
        ("ben", 2, 5, "b_end", "commit"), ("ben", 3, 1, "b_gone", "delete"),
        ("ben", 4, 1, "b_share", "select"),
    ]  # fmt: skip
    read_ = next(each for each in rows if each["step"] == "b_read")
    assert json.loads(read_["rows"]) == [{"balance": 90}]
    assert (read_["outcome"], read_["due_us"], read_["took_us"] > 0) == ("ok", None, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--onto", "rows"), "a run has statements, no rows at each moment"),
        (("--seeds", "1..2"), "twopc accumulate --history"),
        (("--subscribers", "3"), "twopc accumulate --history"),
        (("--at", "0/1"), "twopc accumulate --history"),
    ],
)
def test_wrong_usage(logs: dict[str, Path], words: tuple[str, ...], said: str) -> None:
    code, text = twopc(logs["said"], *words)
    assert code == 2
    assert said in re.sub(r"[\s│]+", " ", text)


def test_what_is_not_there(logs: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match="no order 'another' to replay; there are: one after"
    ):
        replay_here(logs["said"], RunReplay(on="model"), order="another")
    with pytest.raises(
        ConfigurationError, match=r"the scenario is not at .* any more: --scenario FILE"
    ):
        replay_here(logs["said"], RunReplay(on="model"), scenario=tmp_path / "gone.yaml")
    code, text = twopc(tmp_path / "nowhere")
    assert (code, "nothing is at" in text) == (2, True)
    code, text = twopc(tmp_path)
    assert (code, "is no history: say rows, postgres or model" in re.sub(r"[\s│]+", " ", text)) == (
        2,
        True,
    )
    shutil.copy(SAID, tmp_path / "history.jsonl")
    with pytest.raises(ConfigurationError, match="not a history"):
        twopc(tmp_path)
