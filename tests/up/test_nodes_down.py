"""The operator's commands while nodes and processes are down.

They name what cannot be reached, and report everything else.
"""

from __future__ import annotations

import json
import shlex
import urllib.request

import psycopg
import pytest

from tests.cli.in_process import twopc
from twopc.errors import ConfigurationError
from twopc.server.polling import wait_for
from twopc.sim.survey import Answer, presumed
from twopc.sim.up import State
from twopc.sim.up.parts import TopologyPart, running
from twopc.sim.up.setup import server_of


def prepare(state: State, node: str, epoch: int) -> str:
    """Leave a prepared branch of a coordinator whose process is gone, and return its gid."""
    gid = f"twopc:{state.name}:{epoch}:77:{node}"
    with psycopg.connect(state.nodes[node].dsn, autocommit=True) as connection:
        connection.execute("begin")
        connection.execute("create table left_behind ()")
        connection.execute(f"prepare transaction '{gid}'".encode())
    return gid


def dead_epoch(state: State) -> int:
    """Return an epoch that no process holds."""
    with psycopg.connect(state.nodes["distribution"].dsn, autocommit=True) as connection:
        row = connection.execute(
            "insert into msrepl.coordinator_epoch (coordinator, variant) values (%s, 'presumed_abort')"
            " returning epoch",
            (state.name,),
        ).fetchone()
    assert row is not None
    return int(row[0])


def metrics(state: State) -> dict[str, float]:
    """Return the metrics by name and labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{state.metrics_port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name: float(value) for name, value in pairs}


@pytest.mark.xdist_group("standing")
def test_nodes_go_one_after_the_other(state: State) -> None:
    """Commands report what they know while nodes go down and up again; none prints a password."""
    place = state.folder
    option = ("--state", str(place))
    nodes = shlex.split(twopc("up", "--nodes", *option).stdout)
    said: list[str] = [*nodes]

    def run(code: int, *words: str) -> str:
        done = twopc(*words)
        said.extend((done.stdout, done.stderr))
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout

    assert "agent of sub2: started" in run(0, "status", *option)
    assert "sub1, as subscriber" in run(0, "doctor", *nodes)
    run(0, "indoubt", *nodes)
    pasted = twopc("indoubt", "--node", f"sub1={state.nodes['sub1'].app_dsn}")
    assert (pasted.returncode, "administrator" in pasted.stderr) == (4, True)

    running(place)[TopologyPart("agent", "sub2")].kill()
    wait_for(
        lambda: "agent of sub2: dead" in twopc("status", *nodes).stdout,
        what="the agent to be seen dead",
        timeout_s=30,
    )
    assert "not running: agent of sub2;" in run(6, "status", *option)

    epoch = dead_epoch(state)
    first, second = prepare(state, "pub", epoch), prepare(state, "sub1", epoch)
    server_of(state, "sub1").kill()
    listed = run(3, "indoubt", *option)
    assert f"{first}\n" in listed
    assert "sub1: not reached: " in listed
    told = json.loads(run(3, "recover", "--json", *option))
    assert [one["gid"] for one in told["settled"]] == [first]
    assert (told["left"], [*told["unreachable"]]) == ([], ["sub1"])
    assert "agent of sub1" in run(6, "status", *nodes)
    found = metrics(state)
    assert found['twopc_node_up{node="sub1"}'] == 0
    assert found['twopc_node_up{node="pub"}'] == 1
    assert found['twopc_process_down{process="agent of sub2"}'] == 1
    assert 'twopc_distribution_lag_seconds{subscriber="sub2"}' in found

    server_of(state, "pub").kill()
    run(3, "indoubt", *nodes, "--coordinator", state.name)
    third = prepare(state, "sub2", epoch)
    # whose gid this is cannot be determined
    listed = run(3, "indoubt", *nodes)
    assert (f"{third}\n" in listed, "next: not known: " in listed) == (True, True)
    assert "not reached" in run(6, "status", *option)
    server_of(state, "sub2").kill()
    for command in ("status", "indoubt", "recover"):
        run(4, command, *option)
    assert "in doubt: not known" in run(6, "watch", "--once", *option)
    assert "distribution" in json.loads(run(6, "watch", "--json", *option))["unreachable"]

    run(0, "up", *option)
    assert f"{second} at sub1: aborted" in run(0, "recover", *option)
    seen = [f'twopc_node_up{{node="{name}"}}' for name in ("pub", "sub1", "sub2")]
    wait_for(
        lambda: {metrics(state).get(name) for name in seen} == {1},
        what="metrics to see them again",
        timeout_s=60,
    )

    passwords = {server_of(state, name).password for name in state.servers}
    assert not [text for text in said if any(password in text for password in passwords)]
    assert not [text for text in said if "Traceback" in text]
    assert (place / "passwords").stat().st_mode & 0o077 == 0


def test_the_publisher_is_not_guessed() -> None:
    """If several unknown nodes are down, none of them is taken for the Publisher."""
    answers = [Answer(kinds=["distribution"])]
    assert presumed({"a": ""}, answers) == {"a": ["publisher"]}
    with pytest.raises(ConfigurationError, match="which of a, b is the Publisher"):
        presumed({"a": "", "b": ""}, answers)
    knows = [Answer(kinds=["distribution"], publishers={"b"})]
    assert presumed({"a": "", "b": ""}, knows) == {"b": ["publisher"], "a": ["subscriber"]}
    assert presumed({"a": "", "b": ""}, answers, {"a"}) == {"a": ["subscriber"], "b": ["publisher"]}
