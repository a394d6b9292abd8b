"""Tests of killing (SIGKILL) the coordinator of a transaction at two Subscribers; another recovers.

Of its four branches, two of them at the Publisher, all are committed or none is; nothing
stays prepared.
"""

from __future__ import annotations

import signal
from typing import Any

import psycopg
import pytest

from tests.drivers.bank import PUB, Bank
from tests.drivers.crashing import Crashing
from tests.fix_link import until
from tests.forking import Ended
from twopc.drivers.points import Points
from twopc.errors import RejectedError
from twopc.names import BranchId
from twopc.protocol.effects import Outcome
from twopc.sim import operate

SUBSCRIBERS = ("sub1", "sub2")
FIRST = "sub1: update account set balance = 1 where id = 1"
SECOND = "sub2: update account set balance = 1 where id = 2"
NONE, ALL = (0, 0, 0, 0), (1, 1, 1, 1)


class Scene:
    """A bank with two Subscribers, and coordinator processes that work on it and crash."""

    def __init__(self, bank: Bank, crashing: Crashing) -> None:
        self.bank = bank
        self._crashing = crashing

    async def killed(self, arm: str, **options: Any) -> None:
        """Run a process that is killed at a point; return when the server has noticed its end."""
        point, _, nth = arm.partition("@")
        ended = await self._process(f"{point}=kill@{nth or 1}", FIRST, SECOND, **options)
        assert ended.code == -signal.SIGKILL, f"{arm} was not reached: {ended}"
        await self.bank.buried()

    async def recover(self) -> None:
        """Recover in another process; one pass must suffice."""
        assert (await self._process("")).code == 0
        assert await self.bank.prepared() == []
        assert await self.bank.decisions() == []

    async def _process(self, arm: str, *statements: str, **options: Any) -> Ended:
        return await self._crashing.run(
            self.bank.topology, *statements, arm=arm, subscribers=SUBSCRIBERS, **options
        )

    async def effects(self) -> tuple[int, int, int, int]:
        """Return the balances set to 1 by branches: the Publisher's two, then the Subscribers'."""
        bank = self.bank
        return (
            await bank.balance(PUB, 1),
            await bank.balance(PUB, 2),
            await bank.balance("sub1", 1),
            await bank.balance("sub2", 2),
        )

    def markers(self, node: str) -> list[Any]:
        """Return the branch markers at a node."""
        with psycopg.connect(self.bank.topology.node(node).dsn, autocommit=True) as eyes:
            return eyes.execute("select gid from msrepl.branch_marker").fetchall()

    async def branches(self) -> dict[str, str]:
        """Return the gids of prepared branches, by name of the branch."""
        found = [BranchId.parse(gid) for gid in await self.bank.prepared()]
        return {one.branch: str(one) for one in found if one is not None}


@pytest.fixture
async def scene(bank: Bank, crashing: Crashing) -> Scene:
    return Scene(bank, crashing)


UNDECIDED = (
    "begin(sub2)", "after_prepare(pub)", "after_prepare(sub1)", "before_prepare(pub)@2",
    "after_prepare(pub)@2", "after_prepare(sub2)", "before_decision",
)  # fmt: skip
DECIDED = (
    "decision_logged", "after_commit(pub)", "before_commit(pub)@2", "after_commit(pub)@2",
    "after_commit(sub1)", "before_commit(sub2)", "after_commit(sub2)", "before_forget",
)  # fmt: skip
LOGGING = ("presumed_abort", "presumed_commit", "presumed_nothing")


@pytest.mark.sample(1, by=("variant", "expected"))
@pytest.mark.parametrize("variant", LOGGING)
@pytest.mark.parametrize(
    ("point", "expected"),
    [*((point, NONE) for point in UNDECIDED), *((point, ALL) for point in DECIDED)],
)
async def test_all_four_branches_agree(
    scene: Scene, variant: str, point: str, expected: tuple[int, ...]
) -> None:
    await scene.killed(f"coordinator.{point}", commit=variant)
    await scene.recover()
    assert await scene.effects() == expected


@pytest.mark.parametrize(
    ("point", "expected"), [("before_decision", NONE), ("decision_logged", ALL)]
)
async def test_lazy_shipping(scene: Scene, point: str, expected: tuple[int, ...]) -> None:
    await scene.killed(f"coordinator.{point}", shipping="lazy")
    await scene.recover()
    assert await scene.effects() == expected


async def test_a_branch_is_listed_at_its_node(scene: Scene) -> None:
    """Both of the Publisher's branches are listed at the Publisher, with their next action."""
    await scene.killed("coordinator.decision_logged")
    listed = await operate.look(scene.bank.topology)
    found = {
        one.gid.rpartition(":")[2]: (one.node, one.decision, one.next_action) for one in listed
    }
    committed = "commit: the decision log says commit"
    assert found == {
        "pub": (PUB, "commit", committed),
        "pub/sub2": (PUB, "commit", committed),
        "sub1": ("sub1", "commit", committed),
        "sub2": ("sub2", "commit", committed),
    }
    await scene.recover()


@pytest.mark.parametrize("branch", ["pub", "pub/sub2", "sub1", "sub2"])
async def test_a_branch_committed_by_force_takes_the_others_with_it(
    scene: Scene, branch: str
) -> None:
    """Without a decision, recovery commits all branches if any of them was committed by force."""
    await scene.killed("coordinator.before_decision")
    gid = (await scene.branches())[branch]
    topology = scene.bank.topology
    assert await operate.force(topology, gid, Outcome.COMMITTED, "test") is Outcome.COMMITTED
    await scene.recover()
    assert await scene.effects() == ALL


@pytest.mark.sample(2, by=("expected",))
@pytest.mark.parametrize("ended", SUBSCRIBERS)
@pytest.mark.parametrize(
    ("point", "expected"),
    [
        ("after_prepare(pub)", NONE),
        ("before_decision", ALL),
        ("decision_logged", ALL),
        ("after_commit(sub1)", ALL),
    ],
)
async def test_a_session_is_ended(
    scene: Scene, ended: str, point: str, expected: tuple[int, ...]
) -> None:
    """A prepared branch is finished without its session; any other votes no for all four."""
    points = Points()

    async def end(_: str) -> None:
        await scene.bank.fetch(ended, "select pg_terminate_backend(%s, 5000)", (pid,))

    points.arm(f"coordinator.{point}", end)
    async with scene.bank.coordinator(points=points) as coordinator:
        transaction = await coordinator.several(SUBSCRIBERS).begin()
        pid = transaction.at(ended).pid
        for line in (FIRST, SECOND):
            where, _, statement = line.partition(": ")
            await transaction.at(where).execute(statement)
        if expected is ALL:
            await transaction.commit()
        else:
            with pytest.raises(RejectedError) as caught:
                await transaction.commit()
            assert caught.value.node == ended
        assert await scene.bank.prepared() == []
    assert not points.armed
    assert await scene.effects() == expected


async def test_markers_are_forgotten_at_every_node(scene: Scene) -> None:
    """Markers are removed at the node of their branch, which may differ from the branch's name.

    They are kept for 0 s, so that the test need not wait.
    """
    async with scene.bank.coordinator() as coordinator:
        async with coordinator.several(SUBSCRIBERS) as transaction:
            for line in (FIRST, SECOND):
                where, _, statement = line.partition(": ")
                await transaction.at(where).execute(statement)
        assert set(await scene.bank.markers(PUB)) == {
            f"{transaction.gid}:pub",
            f"{transaction.gid}:pub/sub2",
        }
    async with scene.bank.coordinator(recovery_interval_s=0.02, markers_kept_s=0.0) as coordinator:
        coordinator.keeper.over(transaction.gid, transaction.branches)
        for node in (PUB, *SUBSCRIBERS):
            await until(lambda node=node: not scene.markers(node), f"{node} to forget")
