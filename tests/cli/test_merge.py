"""Tests of ``twopc merge``: the output of its commands, and their exit codes."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import running
from twopc.server import EmbeddedServer
from twopc.server.polling import wait_for
from twopc.sim import MergeTopology


@pytest.fixture(scope="module")
def topology() -> Iterator[Any]:
    """A topology in which Anna's subscription has a higher priority than Ben's."""
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
    """Sessions report changes; a conflict is listed with the loser's row, and may fail `sync`."""
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
    """A conflict is resolved by a prefix of its number, with a row or a file, and only once."""
    nodes = _nodes(topology)
    topology.settle()
    for node, phone in (("pub", "5"), ("anna", "6")):
        topology.execute(node, "update customer set phone = %s where id = 2", (phone,))
    topology.sync("anna")
    number = str(topology.conflicts()[-1].id)
    (tmp_path / "row.json").write_text('{"fax": "7"}', encoding="utf-8")
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
    """`reinit` counts the changes that are lost; with `--upload-first` none is lost."""
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
    topology.settle()  # otherwise the subscriptions have expired as soon as a row is changed


def test_a_node_is_told_that_it_was_restored(topology: Any, twopc: Any) -> None:
    """A node that was restored is another replica at once; the next session compares everything."""
    nodes = _nodes(topology)
    topology.execute("ben", "insert into customer values (60, 'before')")
    number = "select replica from msrepl.msmerge_replica"
    [(before,)] = topology.execute("ben", number)
    ran = twopc("merge", "rewound", "ben", *nodes)
    assert (ran.returncode, "ben: has another number now" in ran.stdout) == (0, True), ran.stderr
    assert topology.execute("ben", number) != [(before,)]
    ran = twopc("merge", "sync", "ben", *nodes)
    assert "everything compared: a node was restored from a backup" in ran.stdout, ran.stderr
    topology.settle()
    topology.assert_converged()
    assert topology.execute("anna", "select phone from customer where id = 60") == [("before",)]
    assert twopc("merge", "rewound", "carl", *nodes).returncode == 4


def test_rows_that_were_changed_behind(topology: Any, twopc: Any) -> None:
    """`validate` finds untracked changes, and repairs them; `doctor` names a disabled trigger."""
    nodes = _nodes(topology)
    topology.execute("pub", "insert into customer values (70, 'a'), (71, 'b')")
    topology.settle()
    topology.execute("ben", "set session_replication_role = replica")
    topology.execute("ben", "delete from customer where id = 70")
    topology.execute("ben", "reset session_replication_role")
    ran = twopc("merge", "validate", "ben", *nodes)
    assert (ran.returncode, "1 differing" in ran.stdout, "missing" in ran.stdout) == (1, True, True)
    ran = twopc("merge", "validate", "ben", "--repair", *nodes)
    assert (ran.returncode, "1 travels again" in ran.stdout) == (0, True), ran.stdout
    topology.sync("ben")
    ran = twopc("merge", "validate", "--json", *nodes)
    assert [each["differences"] for [each] in json.loads(ran.stdout).values()] == [[], []]
    ran = twopc("merge", "doctor", *nodes)
    assert (ran.returncode, ran.stdout) == (0, "nothing is wrong\n")
    topology.execute("ben", "alter table customer disable trigger user")
    ran = twopc("merge", "doctor", *nodes)
    assert ran.returncode == 4
    assert re.search(r"ben: table customer misses inserts: trigger msmerge_ins_\w+", ran.stdout)
    assert "remedy: twopc merge regenerate, then validate" in ran.stdout
    assert twopc("merge", "regenerate", *nodes).returncode == 0
    assert twopc("merge", "doctor", *nodes).returncode == 0


def test_how_nodes_stand(topology: Any, twopc: Any) -> None:
    """Commands show what waits, which version of a row each node has, and past sessions."""
    nodes = _nodes(topology)
    topology.settle()
    topology.execute("anna", "insert into customer values (80, 'a')")
    ran = twopc("merge", "status", *nodes)
    assert ran.returncode == 0, ran.stderr
    assert "to anna (server, priority 75): 0 rows wait\n    last session 20" in ran.stdout
    assert "anna, subscribes at pub\n" in ran.stdout
    assert "  to pub: 1 row waits\n" in ran.stdout
    topology.sync("anna")
    ran = twopc("merge", "row", "customer", "id=80", *nodes)
    assert re.search(r"pub: contents, stands on anna \d+\n  id=80, phone=a\n", ran.stdout)
    assert "  written by anna, came from anna" in ran.stdout
    assert "ben: absent\n" in ran.stdout
    [session] = json.loads(twopc("merge", "sessions", "--limit", "1", "--json", *nodes).stdout)
    assert (session["subscriber"], session["articles"][0]["rows"]) == ("anna", 1)
    for arguments, code, message in (
        (["row", "customer", "80", *nodes], 2, "write COLUMN=VALUE, as id=1, or a rowguid"),
        (["row", "customer", "id=81", *nodes], 1, "no node has a row of customer"),
        (["row", "shop", "id=1", *nodes], 4, "table shop is not merged"),
        (["sessions", "carl", *nodes], 4, "no node 'carl'"),
        (["validate", "pub", *nodes], 4, "pub is the Publisher"),
    ):
        ran = twopc("merge", *arguments)
        assert (ran.returncode, message in ran.stderr) == (code, True), ran.stderr
    down = [*_nodes(topology, "pub", "anna"), "--node", f"ben={topology.node('ben').dsn} port=1"]
    ran = twopc("merge", "status", *down)
    assert (ran.returncode, "ben: not reached: " in ran.stdout) == (6, True)


def test_what_is_wrong_is_told(topology: Any, twopc: Any) -> None:
    """An error has a message with a remedy and an exit code, but no traceback and no password."""
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
    """An agent prints what its sessions carry, and ends normally after a signal."""
    topology.settle()
    with running("merge", "agent", "ben", "--every", "0.1", *_nodes(topology)) as agent:
        assert agent.stderr is not None
        assert "runs until" in agent.stderr.readline()
        topology.execute("ben", "update customer set phone = '9' where id = 2")
        wait_for(
            lambda: topology.execute("pub", "select phone from customer where id = 2") == [("9",)],
            what="the change to come to the Publisher",
            timeout_s=60,
        )
        agent.send_signal(signal.SIGTERM)
        out, err = agent.communicate(timeout=60)
    assert (agent.returncode, out) == (0, "ben: uploaded 1, downloaded 0\n"), err
