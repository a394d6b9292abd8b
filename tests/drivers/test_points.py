"""Tests of protocol points: unarmed by default, armed by name, in the process or by environment."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import pytest

from twopc.drivers import POINTS, Points
from twopc.errors import ConfigurationError


async def test_nothing_is_armed_at_first() -> None:
    assert not Points({}).armed


async def test_an_action_runs_once_at_its_point() -> None:
    points, seen = Points(), []
    points.arm("coordinator.before_commit(pub)", seen.append)
    await points.reach("coordinator.before_commit(sub1)")
    assert seen == []
    await points.reach("coordinator.before_commit(pub)")
    await points.reach("coordinator.before_commit(pub)")
    assert seen == ["coordinator.before_commit(pub)"]
    assert not points.armed


async def test_an_action_can_wait_for_the_nth_arrival() -> None:
    points, seen = Points(), []
    points.arm("coordinator.decision_logged", seen.append, nth=3)
    for _ in range(2):
        await points.reach("coordinator.decision_logged")
    assert seen == []
    await points.reach("coordinator.decision_logged")
    assert len(seen) == 1


async def test_an_action_may_be_a_coroutine_and_may_raise() -> None:
    points = Points()

    async def fail(name: str) -> None:
        await asyncio.sleep(0)
        raise OSError(name)

    points.arm("recovery.begin", fail)
    with pytest.raises(OSError, match=r"recovery\.begin"):
        await points.reach("recovery.begin")


async def test_disarming_takes_one_point_or_all() -> None:
    points = Points()
    points.arm("recovery.begin", print)
    points.arm("recovery.end", print)
    points.disarm("recovery.begin")
    assert points.armed
    points.disarm()
    assert not points.armed


@pytest.mark.parametrize(
    "name", ["coordinator.after_lunch", "coordinator.before_commit", "", "(pub)"]
)
def test_an_unknown_point_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigurationError, match="no protocol point"):
        Points().arm(name, print)


def test_every_point_can_be_armed() -> None:
    points = Points()
    for name in POINTS:
        points.arm(name.replace("(node)", "(pub)"), print)


@pytest.mark.parametrize(
    "text",
    ["coordinator.decision_logged", "coordinator.decision_logged=explode", "x=kill@0", "=kill"],
)
def test_a_wrong_environment_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        Points({"TWOPC_ARM": text})


def test_the_environment_kills_the_process_at_a_point() -> None:
    code = """
import asyncio, os
from twopc.drivers import Points
async def main():
    points = Points(os.environ)
    for _ in range(2):
        print("alive", flush=True)
        await points.reach("coordinator.before_decision")
asyncio.run(main())
"""
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={"TWOPC_ARM": "recovery.begin=stop; coordinator.before_decision=kill@2", "PATH": ""},
        stdout=subprocess.PIPE,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    assert ended.stdout.split() == [b"alive", b"alive"]
