"""`twopc up` with nodes that merge, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import psycopg

from tests.up.conftest import Command, suspend
from twopc.server.polling import wait_for
from twopc.sim.up import State, load
from twopc.sim.up.parts import TopologyPart, running


def at(state: State, node: str, statement: str) -> list[tuple[object, ...]]:
    """Execute a statement at a node as an ordinary client; return its rows."""
    with psycopg.connect(state.nodes[node].app_dsn, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def test_agents_merge_until_it_is_taken_down(place: Path, twopc: Command) -> None:
    """A change at one Subscriber reaches another; conflicts and agents that died are shown."""
    code, out, err = twopc("up", "--merge", "--every", "0.2")
    assert code == 0, err
    assert "running: merge agent of sub1, merge agent of sub2" in out
    state = load(place)
    at(state, "sub1", "update customer set phone = '2' where id = 1")
    wait_for(
        lambda: at(state, "sub2", "select phone from customer where id = 1") == [("2",)],
        what="the change to come to the other Subscriber",
        timeout_s=60,
    )
    agent = running(place)[TopologyPart("merge-agent", "sub1")]
    agent.kill()
    psutil.wait_procs([agent])
    at(state, "sub1", "update customer set phone = '3' where id = 2")
    at(state, "pub", "update customer set phone = '4' where id = 2")
    code, out, _ = twopc("watch", "--json")
    seen = json.loads(out)
    assert (code, seen["missing"]) == (6, ["merge agent of sub1"])
    assert [e["rows_up"] for e in seen["merges"] if e["subscriber"] == "sub1"] == [1]
    _, out, _ = twopc("watch", "--once")
    assert "does not run" in out
    assert "conflicts: none" in out
    assert "1 conflict" in twopc("merge", "sync", "sub1")[1]
    assert "sub1  two updates of a column  customer: pub has won" in twopc("watch", "--once")[1]
    code, out, _ = twopc("status")
    assert (code, "not running: merge agent of sub1" in out) == (6, True)
    code, _, err = twopc("sync")
    assert (code, "merge: see `twopc merge --help`" in err) == (4, True)
    assert twopc("up")[0] == 0
    assert TopologyPart("merge-agent", "sub1") in running(place)
    number = suspend(running(place)[TopologyPart("merge-agent", "sub2")])
    line = f"stopped: merge agent of sub2 (process {number}): `kill -CONT {number}` or `twopc up`"
    for words in (("status",), ("watch", "--once")):
        code, out, _ = twopc(*words)
        assert (code, line in out) == (6, True), out
    assert json.loads(twopc("merge", "status", "--json")[1])["stopped"][0]["pid"] == number
    assert twopc("up")[0] == 0
    assert twopc("watch", "--once")[0] == 0
    assert twopc("down")[0] == 0
    assert not running(place)
