"""Tests of the display during a run, from incomplete records."""

from __future__ import annotations

import asyncio
import io
import json
from types import SimpleNamespace

import pytest
from rich.console import Console

from tests.fix_golden import Golden
from tests.report.recorded import NAMES, records
from twopc.sim.cli.progress_lines import ticking
from twopc.sim.report.history import HistoryRecord, by_order
from twopc.sim.report.panel import panel
from twopc.sim.report.progress import as_json, heartbeat, live, standing
from twopc.sim.report.terminal import console
from twopc.sim.scenario.check import load


class Screen(io.StringIO):
    """A terminal; `is_drawn` is set when the first panel has been drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.is_drawn = asyncio.Event()

    def write(self, text: str) -> int:
        if "no-echo" in text:
            self.is_drawn.set()
        return super().write(text)


def order(name: str) -> list[HistoryRecord]:
    """Return the first order of a history."""
    return next(of for _, of in by_order(records(name)))


def until(name: str, kind: str) -> list[HistoryRecord]:
    """Return the first order up to the first record of a kind."""
    whole = order(name)
    return whole[: 1 + next(at for at, record in enumerate(whole) if record.kind == kind)]


def drawn(what: object, width: int = 100) -> str:
    """Return the output on a console without colours."""
    out = io.StringIO()
    console(out, width=width).print(what)
    return out.getvalue()


def test_before_the_first_step() -> None:
    now = standing(order("lost_update")[:1], ())
    assert now.case == "alice first"
    assert dict(now.sessions) == {"alice": "not begun", "bob": "not begun"}


def test_somebody_waits() -> None:
    now = standing(until("lost_update", "blocked"), ())
    assert now.sessions["bob"] == (
        "b_write waits at pub for alice, whose a_write holds a row of account"
    )
    told = heartbeat(now, scenario="lost-update", done=3, elapsed_s=20.4)
    assert told == f"… 20 s, 3 done; lost-update: alice first (bob: {now.sessions['bob']})"


def test_a_commit_is_under_way() -> None:
    whole = order("lost_update")
    commit = next(at for at, record in enumerate(whole) if record.sql == "commit")
    assert standing(whole[: commit + 1], ()).prepared == ("alice at sub1",)
    assert standing(whole, ()).prepared == ()


def test_who_is_behind() -> None:
    whole = order("no_echo")
    first = next(at for at, record in enumerate(whole) if record.kind == "deliver")
    now = standing(whole[: first + 1], ("sub1", "sub2", "sub3"))
    assert dict(now.behind) == {"sub1": 0, "sub2": 0, "sub3": 1}
    text = drawn(live(now, scenario="no-echo", done=0, failed=1, elapsed_s=3))
    assert "behind: sub3 by 1" in text
    assert "0 done, 1 failed · 3 s" in text
    assert not any(standing(whole, list(now.behind)).behind.values()), "at the end nobody is behind"


async def test_a_panel_shows_who_has_received_nothing_yet() -> None:
    """The panel of a run knows the scenario's Subscribers, also those for which no agent has worked."""
    whole = order("no_echo")
    first = next(at for at, record in enumerate(whole) if record.kind == "deliver")
    screen = Screen()
    show = SimpleNamespace(done=0, failed=0, groups=0)
    async with ticking(
        SimpleNamespace(records=whole[: first + 1]), show,
        Console(file=screen, force_terminal=True, width=100),
        scenario=load("scenarios/transactional/no_echo.twopc.yaml").scenario, panel=True,
    ):  # fmt: skip
        await asyncio.wait_for(screen.is_drawn.wait(), 60)
    assert "behind: sub3 by 1" in screen.getvalue()


@pytest.mark.parametrize("name", NAMES)
def test_at_every_moment_something_can_be_drawn(name: str) -> None:
    whole = order(name)
    for length in range(len(whole)):
        now = standing(whole[:length], ())
        assert drawn(live(now, scenario=name, done=0, failed=0, elapsed_s=0))
        assert heartbeat(now, scenario=name, done=0, elapsed_s=0).startswith("… 0 s")


def test_lines_for_tools() -> None:
    told = json.loads(as_json("order", name="one", elapsed_ms=1.5))
    assert told == {"event": "order", "name": "one", "elapsed_ms": 1.5}


@pytest.mark.parametrize("kind", ["order", "blocked", "rejected", "end"])
def test_all_nodes_side_by_side(kind: str, golden: Golden) -> None:
    header = records("lost_update")[0]
    shown = until("lost_update", kind)
    golden(f"report/panel_{kind}.txt", drawn(panel([header, *shown])))


def test_nodes_stand_below_each_other_where_it_is_narrow() -> None:
    whole = order("lost_update")
    wide, narrow = drawn(panel(whole), 100), drawn(panel(whole, 40), 40)
    assert len(narrow.splitlines()) > len(wide.splitlines())
    assert all(len(line) <= 40 for line in narrow.splitlines())
    assert "≠ differs from pub" in narrow


def test_nodes_as_they_stood_before() -> None:
    whole = order("lost_update")
    blocked = next(record for record in whole if record.kind == "blocked")
    assert "⧗ bob waits for alice" in drawn(
        panel([each for each in whole if each.seq <= blocked.seq])
    )
    assert "bob waits" not in drawn(panel(whole))
