"""``twopc merge``: what its commands print, and the exit codes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from twopc.server import EmbeddedServer
from twopc.sim import MergeTopology

_TWOPC = (sys.executable, "-m", "twopc.sim")


@pytest.fixture(scope="module")
def topology() -> Iterator[Any]:
    """Anna's subscription has a higher priority than Ben's."""
    with (
        EmbeddedServer.start() as server,
        MergeTopology.blocking(server=server, subscribers=("anna", "ben")) as made,
    ):
        made.execute("pub", "create table customer (id int primary key, phone text)")
        made.execute("pub", "insert into customer values (1, '1'), (2, '1')")
        made.publish("customer", tracking="column")
        made.subscribe("anna", kind="server", priority=75)
        made.subscribe("ben", kind="server", priority=50)
        yield made


def _nodes(topology: Any, *names: str) -> list[str]:
    chosen = names or tuple(topology.nodes)
    return [word for name in chosen for word in ("--node", f"{name}={topology.node(name).dsn}")]


def test_a_conflict_is_found_and_listed(topology: Any, twopc: Any) -> None:
    """Sessions say what they bring; the loser's row can be read; a clash fails the command that asks for it."""
    nodes = _nodes(topology)
    topology.execute("anna", "update customer set phone = '2' where id = 1")
    topology.execute("ben", "update customer set phone = '3' where id = 1")
    ran = twopc("merge", "sync", "ben", *nodes)
    assert (ran.returncode, ran.stdout) == (0, "ben: uploaded 1, downloaded 0\n")
    ran = twopc("merge", "sync", "--fail-on", "conflict", *nodes)
    assert ran.returncode == 1
    assert ran.stdout == (
        "anna: uploaded 1, downloaded 1; 1 conflict\nben: uploaded 0, downloaded 1\n"
    )
    ran = twopc("merge", "conflicts", "customer", *nodes)
    assert "lost: ben: id=1, phone=3\n  won:  anna\n1 recorded" in ran.stdout
    ran = twopc("merge", "conflicts", "--json", *nodes)
    [conflict] = json.loads(ran.stdout)
    assert (conflict["node"], conflict["type"], conflict["loser"]["phone"]) == ("pub", 2, "3")
    ran = twopc("merge", "generations", "--json", *nodes)
    open_ones = {name: each[-1] for name, each in json.loads(ran.stdout).items()}
    assert {name: each["number"] for name, each in open_ones.items()} == dict.fromkeys(
        ("pub", "anna", "ben")
    )
    assert (open_ones["ben"]["changed_rows"], open_ones["ben"]["received_rows"]) == (1, 1)


def test_a_conflict_is_resolved_by_hand(topology: Any, twopc: Any, tmp_path: Path) -> None:
    """By the beginning of its number: the loser's row, or values from a file; not twice."""
    nodes = _nodes(topology)
    topology.settle()
    for node, phone in (("pub", "5"), ("anna", "6")):
        topology.execute(node, "update customer set phone = %s where id = 2", (phone,))
    topology.sync("anna")
    number = str(topology.conflicts()[-1].id)
    (tmp_path / "row.json").write_text('{"fax": "7"}')
    ran = twopc("merge", "resolve", number, "--keep", tmp_path / "row.json", *nodes)
    assert (ran.returncode, "there is no column 'fax'" in ran.stderr) == (1, True)
    ran = twopc("merge", "resolve", number[:8], "--keep", "loser", *nodes)
    assert "the loser's row is there now" in ran.stdout, ran.stderr
    assert topology.execute("pub", "select phone from customer where id = 2") == [("6",)]
    assert "resolved by hand" in twopc("merge", "conflicts", *nodes).stdout
    ran = twopc("merge", "resolve", number, "--keep", "winner", *nodes)
    assert (ran.returncode, "was resolved before" in ran.stderr) == (1, True)
    ran = twopc("merge", "resolve", "0123abcd", "--keep", "winner", *nodes)
    assert (ran.returncode, "`twopc merge conflicts` lists them" in ran.stderr) == (4, True)
    ran = twopc("merge", "resolve", number, "--keep", "none.json", *nodes)
    assert (ran.returncode, "or write winner or loser" in ran.stderr) == (2, True)


def test_a_subscriber_begins_anew(topology: Any, twopc: Any) -> None:
    """What it had not sent is counted, and gone; with a session first, nothing is lost."""
    nodes = _nodes(topology)
    topology.settle()
    topology.execute("ben", "insert into customer values (50, 'x'), (51, 'y')")
    ran = twopc("merge", "reinit", "ben", *nodes)
    assert ran.stdout == "ben: begins anew; changes lost: 2 rows of customer\n", ran.stderr
    topology.execute("ben", "insert into customer values (52, 'z')")
    ran = twopc("merge", "reinit", "ben", "--upload-first", *nodes)
    assert ran.stdout == "ben: begins anew; no change is lost\n", ran.stderr
    assert topology.execute("ben", "select id from customer where id >= 50") == [(52,)]
    assert twopc("merge", "retention", "3", *nodes).stdout == "retention: 3 days\n"
    topology.settle()
    topology.age(5)
    ran = twopc("merge", "cleanup", *nodes)
    assert re.search(r"^pub: metadata of [1-9]\d* rows? removed$", ran.stdout, re.MULTILINE)


def test_what_is_wrong_is_told(topology: Any, twopc: Any) -> None:
    """A message with a remedy and an exit code; no traceback, and nobody's password."""
    nodes = _nodes(topology)
    down = f"ben={topology.node('ben').dsn} port=1"
    for arguments, code, message in (
        (["sync", "carl", *nodes], 4, "no node 'carl'; nodes are pub, anna, ben"),
        (["sync", "pub", *nodes], 4, "pub is the Publisher: name a Subscriber"),
        (["sync", *_nodes(topology, "anna")], 4, "the Publisher is missing: name pub as well"),
        (
            ["sync", *_nodes(topology, "pub", "anna"), "--node", down],
            4,
            "no session with ben: node 'ben' cannot be reached",
        ),
        (["sync", "--node", "pub"], 2, "write NAME=DSN"),
        (["sync", "--fail-on", "rain", *nodes], 2, "'conflict', 'retry'"),
        (["conflicts", "shop", *nodes], 4, "table shop is not merged; those that are: customer"),
        (["generations", "--state", "nowhere"], 4, "`twopc up` first"),
    ):
        ran = twopc("merge", *arguments)
        assert ran.returncode == code, ran.stderr
        assert message in ran.stderr
        assert "Traceback" not in ran.stderr
        assert "password" not in ran.stderr


def test_an_agent_goes_on_until_it_is_ended(topology: Any) -> None:
    """It prints what its sessions bring, and a signal ends it in order."""
    topology.settle()
    with subprocess.Popen(
        [*_TWOPC, "merge", "agent", "ben", "--every", "0.1", *_nodes(topology)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as agent:
        assert agent.stdout is not None and agent.stderr is not None
        assert "runs until" in agent.stderr.readline()
        topology.execute("ben", "update customer set phone = '9' where id = 2")
        assert agent.stdout.readline() == "ben: uploaded 1, downloaded 0\n"
        agent.send_signal(signal.SIGTERM)
        assert agent.wait() == 0, agent.stderr.read()
