"""Suspended processes of `twopc up`: they exist, but do nothing."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.up.conftest import Command, suspend, wait_until_equal
from tests.up.test_nodes_down import metrics
from twopc.server.polling import wait_for
from twopc.sim.up import State
from twopc.sim.up.parts import TopologyPart, running

UPDATE = "update account set balance = balance + 1 where id = %s"
STOPPED = {
    "log reader": TopologyPart("log-reader"),
    "agent of sub1": TopologyPart("agent", "sub1"),
    "resolver": TopologyPart("resolver"),
}


def write(state: State, node: str, number: int) -> None:
    """Update an account at a node as an ordinary client."""
    with psycopg.connect(state.nodes[node].app_dsn, autocommit=True) as connection:
        connection.execute(UPDATE.encode(), (number,))


@pytest.mark.xdist_group("standing")
def test_suspended_processes_are_told(state: State, standing_command: Command) -> None:
    """Suspended processes are named with the remedy, and their unfinished work is a lag."""
    twopc = standing_command

    def lags() -> dict[str, float | None]:
        agents: list[dict[str, Any]] = json.loads(twopc("status", "--json")[1])["agents"]
        return {each["subscriber"]: each["lag_s"] for each in agents}

    write(state, "sub1", 1)
    wait_until_equal(state)
    wait_for(lambda: lags() == {"sub1": None, "sub2": None}, what="no lag", timeout_s=60)
    assert twopc("watch", "--once")[0] == 0

    alive = running(state.folder)
    numbers = {name: suspend(alive[part]) for name, part in STOPPED.items()}
    write(state, "sub1", 1)
    write(state, "pub", 2)
    wait_for(lambda: all(lags().values()), what="a lag of both", timeout_s=60)
    for words in (("status",), ("watch", "--once")):
        code, out, _ = twopc(*words)
        assert code == 6, (words, out)
        for name, number in numbers.items():
            assert f"stopped: {name} (process {number}): `kill -CONT {number}` or `twopc up`" in out
    assert "agent of sub1: stopped, subscription active" in (out := twopc("status")[1])
    assert "agent of sub2: started, subscription active" in out
    assert "0 transactions wait, and what is in" in out
    for words in (("status", "--json"), ("watch", "--json")):
        code, out, _ = twopc(*words)
        assert code == 6, words
        told = {each["process"]: each["pid"] for each in json.loads(out)["stopped"]}
        assert told == numbers, words
    values = metrics(state)
    for name in STOPPED:
        assert values[f'twopc_process_stopped{{process="{name}"}}'] == 1
    assert values['twopc_distribution_lag_seconds{subscriber="sub2"}'] > 0
    assert values["twopc_log_unread_bytes"] > 0

    alive[STOPPED["resolver"]].resume()
    wait_for(
        lambda: "stopped: resolver" not in twopc("status")[1], what="it to go on", timeout_s=60
    )
    assert twopc("up")[0] == 0
    wait_until_equal(state)
    wait_for(lambda: lags() == {"sub1": None, "sub2": None}, what="no lag", timeout_s=60)
    assert twopc("status")[0] == 0
    assert not [name for name in metrics(state) if name.startswith("twopc_process_stopped")]
