"""Tests of random histories: a Subscriber that executes calls has the Publisher's rows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.proc_execution.histories import on_model, on_postgres
from tests.proc_execution.histories.drawn import history
from twopc.sim import Topology

MakeTopology = Callable[..., Awaitable[Topology]]


def test_a_number_is_a_history() -> None:
    """A number determines its history, and steps of all kinds are drawn."""
    assert history(7) == history(7)
    texts = {step.text.split("'")[0] for number in range(200) for step in history(number)}
    for wanted in ("call add_up()", "call purge(150)", "savepoint a", "rollback to savepoint a"):
        assert wanted in texts
    assert {"prepare transaction ", "commit prepared ", "rollback"} <= texts


def test_on_the_model() -> None:
    """In the model, some calls are sent as calls and some are not, and the sites are equal."""
    seen = on_model.played(0, 600)

    assert seen.different == ""
    assert 100 < seen.calls < seen.called


def test_a_key_that_its_maker_has_given_up() -> None:
    """In the model as on servers, an insert waits for a transaction that inserted and deleted its key.

    Otherwise both calls would be sent.
    """
    assert on_model.played(1440, 20).different == ""


def test_the_snapshot_rule_is_needed() -> None:
    """Without the snapshot rule, the sites differ soon."""
    seen = on_model.played(0, 200, frozenset({"snapshot_rule"}))

    assert seen.different


async def test_on_servers(make_topology: MakeTopology) -> None:
    """On servers, the sites are equal after 60 histories."""
    topology = await make_topology(subscribers=("sub1",))
    await on_postgres.prepared(topology)

    seen = await on_postgres.played(topology, 0, 60)

    assert seen.different == ""
    assert 10 < seen.calls < seen.called


@pytest.mark.catalogue
def test_more_on_the_model() -> None:
    """In the model, the sites are equal after further histories, with separate numbers.

    `python -m tests.proc_execution.histories.drawn` plays ten thousand.
    """
    seen = on_model.played(100_000, 2_000)

    assert seen.different == ""


@pytest.mark.catalogue
async def test_a_thousand_on_servers(make_topology: MakeTopology) -> None:
    """On servers, the sites are equal after a thousand histories, with separate numbers."""
    topology = await make_topology(subscribers=("sub1",))
    await on_postgres.prepared(topology)

    seen = await on_postgres.played(topology, 200_000, 1_000)

    assert seen.different == ""
