"""Tests of a coordinator killed (SIGKILL) at every protocol point, and of another one that recovers.

Decided transactions are committed at both sites, undecided ones at neither; nothing stays prepared;
branches of other programs are not touched.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.drivers.bank import PUB, SUB, Bank
from tests.drivers.crashing import Crashing
from tests.forking import Ended
from twopc.drivers import POINTS
from twopc.names import PREFIX

AT_SUBSCRIBER = """
create function refuse() returns trigger language plpgsql as
$$ begin raise exception 'not today'; end $$;
create table refused (k integer);
grant all on refused to public;
create constraint trigger refuse after insert on refused deferrable initially deferred
    for each row execute function refuse();
"""
UPDATE = "update account set balance = balance + 1 where id = 1"
REFUSED = (UPDATE, "insert into refused values (1)")


class Scene:
    """A bank, and coordinator processes that work on it and crash."""

    def __init__(self, bank: Bank, crashing: Crashing) -> None:
        self.bank = bank
        self._crashing = crashing

    async def process(self, arm: str = "", *statements: str, **options: Any) -> Ended:
        """Run a coordinator process, which recovers when it opens."""
        return await self._crashing.run(self.bank.topology, *statements, arm=arm, **options)

    async def recover(self) -> None:
        """Recover in another process; one pass must suffice."""
        await self.bank.buried()
        async with self.bank.coordinator():
            assert await self.bank.prepared() == []
            assert await self.bank.decisions() == []


@pytest.fixture
async def scene(bank: Bank, crashing: Crashing) -> AsyncIterator[Scene]:
    """A bank with a branch of another program prepared in both databases, which must stay prepared."""
    for node in (PUB, SUB):
        await bank.fetch(
            node,
            f"begin; create table strange_{node} (n integer); prepare transaction 'stranger {node}'",
        )
    yield Scene(bank, crashing)
    for node in (PUB, SUB):
        rows = await bank.fetch(
            node, "select gid from pg_prepared_xacts where database = current_database()"
        )
        for (gid,) in rows:
            await bank.fetch(node, f"rollback prepared '{gid}'")
        assert rows == [(f"stranger {node}",)]


def cells(*names: str) -> list[str]:
    """Return the names of the coordinator's points from their short names."""
    return [f"coordinator.{name}" for name in names]


VOTES = cells(
    "begin(sub1)", "before_prepare(pub)", "after_prepare(pub)", "before_prepare(sub1)",
    "after_prepare(sub1)", "before_decision",
)  # fmt: skip
FINISH = cells(
    "decision_logged", "before_commit(pub)", "after_commit(pub)", "before_commit(sub1)",
    "after_commit(sub1)", "before_forget", "after_forget",
)  # fmt: skip
LOGGING = ("presumed_abort", "presumed_commit", "presumed_nothing")
CELLS = [
    *((variant, point, False) for variant in LOGGING for point in VOTES),
    *((variant, point, True) for variant in LOGGING for point in FINISH),
    *(
        ("last_agent", point, False)
        for point in cells("begin(sub1)", "before_prepare(pub)", "after_prepare(pub)", "before_commit(sub1)")
    ),
    *(
        ("last_agent", point, True)
        for point in cells("after_commit(sub1)", "before_commit(pub)", "after_commit(pub)")
    ),
]  # fmt: skip


@pytest.mark.sample(1, by=("variant", "decided"))
@pytest.mark.parametrize(("variant", "point", "decided"), CELLS)
async def test_decided_or_not_both_sites_agree(
    scene: Scene, variant: str, point: str, decided: bool
) -> None:
    ended = await scene.process(f"{point}=kill", UPDATE, commit=variant)
    assert ended.code == -signal.SIGKILL, f"{point} was not reached: {ended}"
    await scene.recover()
    await scene.bank.assert_atomic()
    assert await scene.bank.balances() == ((1, 1) if decided else (0, 0))


@pytest.mark.parametrize("variant", LOGGING)
@pytest.mark.parametrize(
    "point", ["coordinator.before_rollback(pub)", "coordinator.after_rollback(pub)"]
)
async def test_a_refusal_interrupted_is_a_refusal(scene: Scene, variant: str, point: str) -> None:
    ended = await scene.process(f"{point}=kill", *REFUSED, commit=variant)
    assert ended.code == -signal.SIGKILL
    await scene.recover()
    await scene.bank.assert_atomic()
    assert await scene.bank.balances() == (0, 0)


RECOVERY = [
    name.replace("node", node)
    for name in POINTS
    if name.startswith("recovery.")
    for node in ((PUB, SUB) if "(node)" in name else ("",))
]


@pytest.mark.sample(3, by=("decided",))
@pytest.mark.parametrize("point", RECOVERY)
@pytest.mark.parametrize(
    ("first", "decided"), [("decision_logged", True), ("before_decision", False)]
)
async def test_killed_again_and_again_in_recovery(
    scene: Scene, point: str, first: str, decided: bool
) -> None:
    ended = await scene.process(f"coordinator.{first}=kill", UPDATE)
    assert ended.code == -signal.SIGKILL
    await scene.bank.buried()
    for _ in range(3):
        ended = await scene.process(f"{point}=kill")
        assert ended.code in (-signal.SIGKILL, 0), ended
    await scene.recover()
    await scene.bank.assert_atomic()
    assert await scene.bank.balances() == ((1, 1) if decided else (0, 0))


async def test_an_acknowledged_commit_is_there(scene: Scene) -> None:
    """A commit that was answered is kept if the process ends before it has forgotten the decision."""
    ended = await scene.process("", UPDATE)
    assert (ended.code, ended.said) == (0, "committed")
    assert await scene.bank.balances() == (1, 1)
    await scene.recover()
    assert await scene.bank.balances() == (1, 1)


async def test_every_point_of_the_coordinator_was_killed_at() -> None:
    killed = {point for _, point, _ in CELLS} | {
        "coordinator.before_rollback(pub)", "coordinator.after_rollback(pub)",
    }  # fmt: skip
    templates = {point.replace("(pub)", "(node)").replace("(sub1)", "(node)") for point in killed}
    assert templates == {point for point in POINTS if point.startswith("coordinator.")}


async def test_gids_are_ours(scene: Scene) -> None:
    ended = await scene.process("coordinator.after_prepare(sub1)=kill", UPDATE)
    assert ended.code == -signal.SIGKILL
    prepared = await scene.bank.prepared()
    assert [gid.rpartition(":")[2] for gid in prepared] == [PUB, SUB]
    assert all(gid.startswith(f"{PREFIX}:{scene.bank.coordinator_name}:") for gid in prepared)
    await scene.recover()
