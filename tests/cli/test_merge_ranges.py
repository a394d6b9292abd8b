"""Tests of identity ranges: ``twopc merge ranges``, ``publish`` with ranges, and ``doctor``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from twopc.server import EmbeddedServer
from twopc.sim import MergeTopology

BURN = "insert into orders (item) select 'x' from generate_series(1, {})"


@pytest.fixture
def topology(twopc: Any) -> Iterator[Any]:
    """A topology set up by commands, in which Anna draws from two ranges of ten values."""
    with (
        EmbeddedServer.start() as server,
        MergeTopology.blocking(server=server, subscribers=("anna",)) as made,
    ):
        made.execute("pub", "create table orders (id smallserial primary key, item text)")
        nodes = _nodes(made)
        ran = twopc(
            *("merge", "publish", "orders", "--identity-range", "10", "--threshold", "70"),
            *("--pub-identity-range", "20", *nodes[:2]),
        )
        assert ran.returncode == 0, ran.stderr
        assert twopc("merge", "subscribe", "anna", *nodes).returncode == 0
        yield made


def _nodes(topology: Any) -> list[str]:
    return [
        word for name in ("pub", "anna") for word in ("--node", f"{name}={topology.node(name).dsn}")
    ]


def test_who_holds_what(topology: Any, twopc: Any) -> None:
    """`ranges` shows a node's place in its ranges, its next value, and what a session would add."""
    nodes = _nodes(topology)
    topology.execute("pub", BURN.format(1))
    topology.execute("anna", BURN.format(7))
    ran = twopc("merge", "ranges", *nodes)
    assert ran.stdout == (
        "pub: orders.id: next 22, 32746 left\n"
        "  allotted to anna: 1 to 20\n"
        "anna: orders.id: next 8, 13 left; a session brings 10\n"
        "  draws from 1 to 20\n"
    ), ran.stderr
    assert twopc("merge", "sync", *nodes).returncode == 0
    topology.execute("anna", BURN.format(13))
    ran = twopc("merge", "ranges", "anna", "--json", *nodes)
    [anna] = json.loads(ran.stdout)
    assert (anna["node"], anna["next"], anna["left"]) == ("anna", 22, 10)
    [drawn_from] = anna["drawn_from"]
    assert (drawn_from["first"], drawn_from["last"]) == (22, 31)
    assert twopc("merge", "ranges", "carl", *nodes).returncode == 4


def test_the_doctor_names_what_is_nearly_used_up(topology: Any, twopc: Any) -> None:
    """`doctor` names a Subscriber with few values left, and a type with few values left."""
    nodes = _nodes(topology)
    topology.execute("anna", BURN.format(16))
    assert twopc("merge", "doctor", *nodes).stdout == "nothing is wrong\n"
    topology.execute("anna", BURN.format(1))
    ran = twopc("merge", "doctor", *nodes)
    assert ran.returncode == 4
    assert ran.stdout == (
        "anna: table orders: column 'id' has 3 identity values left here, and a session would bring 20: "
        "inserts fail without them (548)\n"
        "  remedy: twopc merge sync anna; if that brings none, look at those of pub by `twopc merge ranges`\n"
    )
    assert twopc("merge", "sync", *nodes).returncode == 0
    assert twopc("merge", "doctor", *nodes).returncode == 0
    topology.execute("pub", "select setval('orders_id_seq', 32748)")
    ran = twopc("merge", "doctor", *nodes)
    assert (
        "pub: table orders: column 'id' has 19 identity values left, which its type" in ran.stdout
    )


def test_a_publisher_that_waits_for_its_subscribers(topology: Any, twopc: Any) -> None:
    """A restored Publisher allots nothing; both commands name the sessions that it needs."""
    nodes = _nodes(topology)
    topology.execute("pub", BURN.format(1))
    assert twopc("merge", "sync", *nodes).returncode == 0
    assert twopc("merge", "rewound", "pub", *nodes).returncode == 0
    ran = twopc("merge", "ranges", "pub", *nodes)
    assert "  was restored: allots none before sessions with anna\n" in ran.stdout
    ran = twopc("merge", "doctor", *nodes)
    assert "no identity values are allotted since this node was restored" in ran.stdout
    assert "remedy: twopc merge sync anna" in ran.stdout
    assert twopc("merge", "sync", *nodes).returncode == 0
    assert "restored" not in twopc("merge", "doctor", *nodes).stdout
