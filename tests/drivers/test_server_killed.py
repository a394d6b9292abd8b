"""Tests of a server killed (SIGKILL to all its processes) at every protocol point and restarted.

Prepared transactions survive, others are gone, and the application's answer is true.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.drivers.apart import NODES, ApartBank, apart
from tests.drivers.bank import SUB
from twopc import errors
from twopc.drivers import Points

UPDATE = "update account set balance = balance + 1 where id = 1"
COMMON = ("begin(sub1)", "before_prepare(pub)", "after_prepare(pub)")
LOGGED = (
    *COMMON, "before_prepare(sub1)", "after_prepare(sub1)", "before_decision", "decision_logged",
    "before_commit(pub)", "after_commit(pub)", "before_commit(sub1)", "after_commit(sub1)",
)  # fmt: skip
AGENT = (
    *COMMON,
    "before_commit(sub1)",
    "after_commit(sub1)",
    "before_commit(pub)",
    "after_commit(pub)",
)
CELLS = [
    *(("presumed_abort", f"coordinator.{point}") for point in LOGGED),
    *(("last_agent", f"coordinator.{point}") for point in AGENT),
]


@pytest.fixture(scope="module")
def shared_apart() -> Iterator[ApartBank]:
    with apart() as made:
        yield made


@pytest.fixture
async def apart_bank(shared_apart: ApartBank) -> AsyncIterator[ApartBank]:
    await shared_apart.restart_all()
    await shared_apart.reset()
    yield shared_apart
    await shared_apart.restart_all()
    assert await shared_apart.prepared() == []


async def attempt(bank: ApartBank, points: Points, commit: str) -> str:
    """Run one transaction; return the outcome that the application saw.

    It is ``committed``, ``rejected`` or ``in doubt``.
    """
    async with bank.coordinator(points=points, in_doubt_after_s=0.3) as coordinator:
        try:
            async with coordinator.transaction(SUB, commit=commit) as transaction:
                await transaction.execute(UPDATE)
            told = "committed"
        except errors.RejectedError:
            told = "rejected"
        except errors.InDoubtError:
            told = "in doubt"
        await bank.restart_all()
        await coordinator.recover()
        await coordinator.recover()
    return told


async def check(bank: ApartBank, told: str) -> None:
    await bank.assert_atomic()
    there, _ = await bank.balances()
    if told != "in doubt":
        assert there == (1 if told == "committed" else 0), f"the application was told: {told}"
    assert await bank.decisions() == []
    async with bank.coordinator() as coordinator:
        assert (await coordinator.run(SUB, UPDATE)).rowcount == 1
    assert await bank.balances() == (there + 1, there + 1)


@pytest.mark.sample(1, by=("commit", "node"))
@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize(("commit", "point"), CELLS)
async def test_it_comes_back_at_once(
    apart_bank: ApartBank, commit: str, point: str, node: str
) -> None:
    points = Points()

    async def kill(_: str) -> None:
        await apart_bank.kill(node)
        await apart_bank.restart(node)

    points.arm(point, kill)
    told = await attempt(apart_bank, points, commit)
    assert not points.armed, f"{point} was not reached"
    assert told != "in doubt", "every server is there: nothing needs to be in doubt"
    await check(apart_bank, told)


MAY_BE_IN_DOUBT = {
    # Until the server is back, the outcome of the insert is unknown.
    ("presumed_abort", "coordinator.before_decision", "distribution"),
    # Until the server is back, the outcome of the last agent is unknown.
    ("last_agent", "coordinator.after_prepare(pub)", "sub1"),
    ("last_agent", "coordinator.before_commit(sub1)", "sub1"),
    ("last_agent", "coordinator.before_prepare(pub)", "sub1"),
}


@pytest.mark.sample(1, by=("commit", "node"))
@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize(("commit", "point"), CELLS)
async def test_it_comes_back_when_the_application_has_its_answer(
    apart_bank: ApartBank, commit: str, point: str, node: str
) -> None:
    points = Points()
    points.arm(point, lambda _: apart_bank.kill(node))
    told = await attempt(apart_bank, points, commit)
    assert not points.armed, f"{point} was not reached"
    assert told != "in doubt" or (commit, point, node) in MAY_BE_IN_DOUBT
    await check(apart_bank, told)


@pytest.mark.sample(1, by=("node",))
@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize(
    ("commit", "point"),
    [
        ("presumed_abort", "coordinator.after_prepare(pub)"),
        ("presumed_abort", "coordinator.before_commit(pub)"),
        ("presumed_abort", "coordinator.after_commit(pub)"),
        ("last_agent", "coordinator.before_commit(sub1)"),
    ],
)
async def test_one_killed_backend_takes_all_sessions_with_it(
    apart_bank: ApartBank, commit: str, point: str, node: str
) -> None:
    """A killed backend, for which the postmaster ends all sessions, leaves nothing in doubt."""
    points = Points()
    points.arm(point, lambda _: apart_bank.kill_backend(node))
    told = await attempt(apart_bank, points, commit)
    assert told != "in doubt"
    await check(apart_bank, told)
