"""Random histories: what a Subscriber that runs calls again holds is what the Publisher holds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.proc_execution.histories import on_model, on_postgres
from tests.proc_execution.histories.drawn import history
from twopc.sim import Topology

MakeTopology = Callable[..., Awaitable[Topology]]


def test_a_number_is_a_history() -> None:
    """The same steps each time; and all kinds of them are drawn."""
    assert history(7) == history(7)
    texts = {step.text.split("'")[0] for number in range(200) for step in history(number)}
    for wanted in ("call add_up()", "call purge(150)", "savepoint a", "rollback to savepoint a"):
        assert wanted in texts
    assert {"prepare transaction ", "commit prepared ", "rollback"} <= texts


def test_on_the_model() -> None:
    """Some calls travel, some do not, and the sites are equal."""
    seen = on_model.played(0, 600)

    assert seen.different == ""
    assert 100 < seen.calls < seen.called


def test_a_key_that_its_maker_has_given_up() -> None:
    """Another insert waits for whoever inserted and deleted a key, as servers do; else both would travel."""
    assert on_model.played(1440, 20).different == ""


def test_the_snapshot_rule_is_needed() -> None:
    """Without it a difference is found soon: the test above would notice."""
    seen = on_model.played(0, 200, frozenset({"snapshot_rule"}))

    assert seen.different


async def test_on_servers(make_topology: MakeTopology) -> None:
    """Fifty of them."""
    topology = await make_topology(subscribers=("sub1",))
    await on_postgres.prepared(topology)

    seen = await on_postgres.played(topology, 0, 60)

    assert seen.different == ""
    assert 10 < seen.calls < seen.called


@pytest.mark.catalogue
def test_more_on_the_model() -> None:
    """Numbers of their own; `python -m tests.proc_execution.histories.drawn` plays ten thousand."""
    seen = on_model.played(100_000, 2_000)

    assert seen.different == ""


@pytest.mark.catalogue
async def test_a_thousand_on_servers(make_topology: MakeTopology) -> None:
    """Numbers of their own."""
    topology = await make_topology(subscribers=("sub1",))
    await on_postgres.prepared(topology)

    seen = await on_postgres.played(topology, 200_000, 1_000)

    assert seen.different == ""
