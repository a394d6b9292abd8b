"""Tests of recovery on branches that a test prepares: what it settles, how, and what it must not touch."""

from __future__ import annotations

import asyncio
from contextlib import closing

import psycopg
import pytest
from psycopg import sql

from tests.drivers.place import Place
from tests.fix_link import until
from twopc.drivers.points import POINTS
from twopc.names import session_name
from twopc.protocol.effects import Outcome


class Crash(BaseException):
    """Represents the end of the process."""


# -- presumed abort --------------------------------------------------------------------------------


async def test_without_a_decision_both_branches_are_rolled_back(place: Place, epoch: int) -> None:
    gids = [f"twopc:c:{epoch}:5:pub", f"twopc:c:{epoch}:5:sub1"]
    for gid in gids:
        place.prepare(gid)
    settled = await place.recover()
    assert [(one.gid, one.outcome) for one in settled] == [(gid, Outcome.ABORTED) for gid in gids]
    assert "presumed" in settled[0].reason
    assert place.rows("pub") == place.rows("sub1") == []
    assert place.prepared("pub") == place.prepared("sub1") == []


async def test_with_a_decision_both_branches_are_committed_and_it_is_forgotten(
    place: Place,
    epoch: int,
) -> None:
    gids = [f"twopc:c:{epoch}:5:pub", f"twopc:c:{epoch}:5:sub1"]
    for gid in gids:
        place.prepare(gid)
    place.decide(epoch, 5)
    settled = await place.recover()
    assert [(one.gid, one.outcome) for one in settled] == [(gid, Outcome.COMMITTED) for gid in gids]
    assert place.rows("pub") == [gids[0]]
    assert place.rows("sub1") == [gids[1]]
    assert place.decisions() == []
    assert await place.recover() == [], "a second pass finds nothing to do"


async def test_a_decision_behind_many_others_is_one(place: Place, epoch: int) -> None:
    """A decision after 10,000 others is found.

    A coordinator that is delayed forgets late, and its prepared branches belong to its
    last decisions.
    """
    place.fetch(
        "log",
        "insert into msrepl.decision (epoch, sequence, coordinator, kind, participants)"
        " select %s, n, 'c', 'commit', '{elsewhere}' from generate_series(1, 10000) as n",
        (epoch,),
    )
    gids = [f"twopc:c:{epoch}:20000:pub", f"twopc:c:{epoch}:20000:sub1"]
    for gid in gids:
        place.prepare(gid)
    place.decide(epoch, 20000)
    later = place.epoch()
    place.commit(half := f"twopc:c:{later}:1:pub")
    place.decide(later, 1)
    settled = await place.recover(retention_s=0.0)
    assert [(one.gid, one.outcome) for one in settled] == [(gid, Outcome.COMMITTED) for gid in gids]
    assert await place.heuristics() == []
    assert (half,) in place.fetch("pub", "select gid from msrepl.branch_marker")


async def test_one_half_committed_is_completed(place: Place, epoch: int) -> None:
    place.commit(f"twopc:c:{epoch}:5:pub")
    place.prepare(f"twopc:c:{epoch}:5:sub1")
    place.decide(epoch, 5)
    assert [one.node for one in await place.recover()] == ["sub1"]
    assert place.rows("sub1") == [f"twopc:c:{epoch}:5:sub1"]
    assert place.decisions() == []


async def test_a_decision_whose_branches_are_all_committed_is_forgotten(
    place: Place, epoch: int
) -> None:
    place.commit(f"twopc:c:{epoch}:5:pub")
    place.commit(f"twopc:c:{epoch}:5:sub1")
    place.decide(epoch, 5)
    assert await place.recover() == []
    assert place.decisions() == []


async def test_a_hundred_branches_are_settled_each_on_its_own(place: Place, epoch: int) -> None:
    for sequence in range(1, 51):
        for name in ("pub", "sub1"):
            place.prepare(f"twopc:c:{epoch}:{sequence}:{name}")
        if sequence % 2:
            place.decide(epoch, sequence)
    assert len(await place.recover()) == 100
    assert len(place.rows("pub")) == len(place.rows("sub1")) == 25


# -- what it must not touch ------------------------------------------------------------------------


async def test_nothing_of_others_is_touched(place: Place) -> None:
    own, other = place.epoch(), place.epoch(coordinator="d")
    foreign = [
        f"twopc:d:{other}:1:pub",  # of another coordinator
        f"twopc:c:{own + 1000}:1:pub",  # an epoch that the log does not know
        f"twopc:c:0{own}:1:pub",  # not a gid of a coordinator: leading zero
        f"twopc:c:{own}:1",  # not a branch
        f"twopc:c:{own}:1:pub:more",
        f"twopc:c:{own}:x:pub",
        f"twopc:c:{own}:1:sub1",  # a branch of another node
        f"TWOPC:c:{own}:1:pub",
        f"twopc:cc:{own}:1:pub",
        "pg_gid_16394_745",  # of logical replication
        "somebody else's",
    ]
    for gid in foreign:
        with closing(place.databases["pub"].connect()) as connection:
            connection.execute("begin; insert into t values ('x')")
            connection.execute(sql.SQL("prepare transaction {}").format(sql.Literal(gid)))
    before = place.prepared("pub")
    assert len(before) == len(foreign)
    assert await place.recover() == []
    assert place.prepared("pub") == before
    for gid in foreign:
        with closing(place.databases["pub"].connect()) as connection:
            connection.execute(sql.SQL("rollback prepared {}").format(sql.Literal(gid)))


async def test_an_epoch_that_is_alive_is_left_alone(place: Place) -> None:
    with closing(place.databases["log"].connect()) as alive:
        row = alive.execute("select msrepl.open_epoch('c', 'presumed_abort')").fetchone()
        assert row is not None
        gid = f"twopc:c:{row[0]}:1:pub"
        place.prepare(gid)
        assert await place.recover() == []
        assert [found[0] for found in place.prepared("pub")] == [gid]
    living = "select epoch from msrepl.living_epoch"
    await until(lambda: not place.fetch("log", living), "its session to be gone")
    assert [one.gid for one in await place.recover()] == [gid]


async def test_a_transaction_that_a_driver_works_on_is_left_alone(place: Place, epoch: int) -> None:
    place.prepare(f"twopc:c:{epoch}:1:pub")
    place.prepare(f"twopc:c:{epoch}:2:pub")
    async with place.recovery() as recovery:
        settled = await recovery.run(own=[epoch], active=lambda: {(epoch, 1)})
        assert [one.gid for one in settled] == [f"twopc:c:{epoch}:2:pub"]
        assert len(await recovery.run(own=[epoch])) == 1


async def test_what_a_driver_gave_up_is_settled_and_taken_off_the_list(
    place: Place, epoch: int
) -> None:
    place.prepare(f"twopc:c:{epoch}:1:sub1")
    place.commit(f"twopc:c:{epoch}:1:pub")
    place.decide(epoch, 1)
    place.decide(epoch, 2)  # a driver works on it: it is not in the set
    unsettled = {(epoch, 1), (epoch, 3)}
    async with place.recovery() as recovery:
        assert len(await recovery.run(own=[epoch], unsettled=unsettled)) == 1
    assert unsettled == set()
    assert [row[1] for row in place.decisions()] == [2]


async def test_sessions_of_a_dead_process_are_ended(place: Place, epoch: int) -> None:
    """Sessions of a dead process are terminated, because they could otherwise prepare later.

    The server has not noticed yet that the client is gone.
    """
    ghost = psycopg.connect(
        place.databases["sub1"].dsn,
        application_name=session_name("c", epoch),
        autocommit=True,
    )
    link = psycopg.connect(
        place.databases["pub"].dsn,
        application_name=f"msrepl sub1 {ghost.info.backend_pid}",
        autocommit=True,
    )
    with closing(ghost), closing(link):
        ghost.execute("begin; insert into t values ('x')")
        await place.recover()
        for connection in (ghost, link):
            with pytest.raises(psycopg.OperationalError):
                connection.execute("select 1")


# -- the other variants ----------------------------------------------------------------------------


async def test_the_last_agents_marker_is_the_decision(place: Place) -> None:
    epoch = place.epoch("last_agent")
    place.prepare(f"twopc:c:{epoch}:1:pub")
    place.commit(f"twopc:c:{epoch}:1:sub2")
    place.prepare(f"twopc:c:{epoch}:2:pub")
    settled = {one.gid: one.outcome for one in await place.recover()}
    assert settled == {
        f"twopc:c:{epoch}:1:pub": Outcome.COMMITTED,
        f"twopc:c:{epoch}:2:pub": Outcome.ABORTED,
    }
    fenced = place.fetch("sub1", "select gid from msrepl.branch_marker where fence order by gid")
    assert (f"twopc:c:{epoch}:2:sub1",) in fenced, "the agent can no longer commit"


async def test_a_last_agent_that_cannot_be_asked_is_waited_for(place: Place) -> None:
    epoch = place.epoch("last_agent")
    place.prepare(f"twopc:c:{epoch}:1:pub")
    nowhere = place.databases["sub2"].dsn.replace(place.databases["sub2"].name, "nowhere")
    assert await place.recover(sub2=nowhere) == []
    assert len(place.prepared("pub")) == 1
    assert [one.outcome for one in await place.recover()] == [Outcome.ABORTED]


async def test_a_last_agent_that_is_still_at_it_is_waited_for(place: Place) -> None:
    epoch = place.epoch("last_agent")
    place.prepare(f"twopc:c:{epoch}:1:pub")
    with closing(place.databases["sub1"].connect()) as agent:
        agent.execute("begin")
        place._write(agent, f"twopc:c:{epoch}:1:sub1")
        assert await place.recover() == []
        agent.execute("commit")
    assert [one.outcome for one in await place.recover()] == [Outcome.COMMITTED]


async def test_presumed_commit_commits_what_the_log_has_forgotten(place: Place) -> None:
    epoch = place.epoch("presumed_commit")
    place.prepare(f"twopc:c:{epoch}:1:pub")
    assert [one.outcome for one in await place.recover()] == [Outcome.COMMITTED]


@pytest.mark.parametrize(
    ("variant", "kind", "outcome"),
    [
        ("presumed_commit", "collecting", Outcome.ABORTED),
        ("presumed_commit", "commit", Outcome.COMMITTED),
        ("presumed_commit", "abort", Outcome.ABORTED),
        ("presumed_nothing", "commit", Outcome.COMMITTED),
        ("presumed_nothing", "abort", Outcome.ABORTED),
    ],
)
async def test_the_log_decides_in_every_variant(
    place: Place, variant: str, kind: str, outcome: Outcome
) -> None:
    epoch = place.epoch(variant)
    for name in ("pub", "sub1"):
        place.prepare(f"twopc:c:{epoch}:1:{name}")
    place.decide(epoch, 1, kind)
    assert [one.outcome for one in await place.recover()] == [outcome, outcome]
    assert place.decisions() == []


# -- finished by hand ------------------------------------------------------------------------------


async def test_a_branch_rolled_back_by_hand_is_reported_once_and_the_other_is_committed(
    place: Place,
    epoch: int,
) -> None:
    for name in ("pub", "sub1"):
        place.prepare(f"twopc:c:{epoch}:1:{name}")
    place.decide(epoch, 1)
    place.fetch("pub", f"rollback prepared 'twopc:c:{epoch}:1:pub'")
    assert [one.node for one in await place.recover()] == ["sub1"]
    found = await place.heuristics()
    assert [(one.node, one.outcome, one.decided, one.damage, one.forced) for one in found] == [
        ("pub", "aborted", "committed", True, False)
    ]
    assert place.decisions() == [(epoch, 1, "commit", [])], "the decision is kept as evidence"
    assert await place.recover() == []
    assert len(await place.heuristics()) == 1


async def test_a_branch_committed_by_hand_is_followed_and_reported(
    place: Place, epoch: int
) -> None:
    for name in ("pub", "sub1"):
        place.prepare(f"twopc:c:{epoch}:1:{name}")
    place.fetch("pub", f"commit prepared 'twopc:c:{epoch}:1:pub'")
    assert [one.outcome for one in await place.recover()] == [Outcome.COMMITTED]
    found = await place.heuristics()
    assert [(one.node, one.outcome, one.decided, one.damage) for one in found] == [
        ("pub", "committed", None, False)
    ]


# -- repeated, concurrent, and killed --------------------------------------------------------------


async def test_two_passes_at_once_agree(place: Place, epoch: int) -> None:
    for sequence in range(1, 11):
        for name in ("pub", "sub1"):
            place.prepare(f"twopc:c:{epoch}:{sequence}:{name}")
        if sequence % 2:
            place.decide(epoch, sequence)
    await asyncio.gather(place.recover(), place.recover(), place.recover())
    assert len(place.rows("pub")) == len(place.rows("sub1")) == 5
    assert place.prepared("pub") == place.prepared("sub1") == []
    assert place.decisions() == []
    assert await place.heuristics() == []


RECOVERY_POINTS = [
    name.replace("node", node)
    for name in POINTS
    if name.startswith("recovery.")
    for node in (("pub", "sub1") if "(node)" in name else ("",))
]


@pytest.mark.parametrize("point", RECOVERY_POINTS)
async def test_killed_at_any_point_it_does_the_rest_the_next_time(
    place: Place, epoch: int, point: str
) -> None:
    for sequence in (1, 2):
        for name in ("pub", "sub1"):
            place.prepare(f"twopc:c:{epoch}:{sequence}:{name}")
    place.decide(epoch, 1)

    def crash(_: str) -> None:
        raise Crash

    place.points.arm(point, crash)
    with pytest.raises(Crash):
        await place.recover()
    await place.recover()
    assert place.rows("pub") == [f"twopc:c:{epoch}:1:pub"]
    assert place.rows("sub1") == [f"twopc:c:{epoch}:1:sub1"]
    assert place.prepared("pub") == place.prepared("sub1") == []
    assert place.decisions() == []


# -- forgetting ------------------------------------------------------------------------------------


async def test_a_dead_epoch_is_cleared_away_when_its_time_is_over(place: Place) -> None:
    epoch, stay = place.epoch(), 0
    place.commit(f"twopc:c:{epoch}:1:pub")
    place.prepare(f"twopc:c:{epoch}:2:sub1")
    with closing(place.databases["log"].connect()) as alive:
        row = alive.execute("select msrepl.open_epoch('c', 'presumed_abort')").fetchone()
        assert row is not None
        stay = row[0]
        place.commit(f"twopc:c:{stay}:1:pub")
        await place.recover()
        assert len(place.fetch("log", "select epoch from msrepl.coordinator_epoch")) == 2
        await place.recover(retention_s=0.0)
        assert place.fetch("log", "select epoch from msrepl.coordinator_epoch") == [(stay,)]
        left = place.fetch("pub", "select gid from msrepl.branch_marker")
        assert left == [(f"twopc:c:{stay}:1:pub",)]


async def test_a_dead_epoch_stays_while_a_node_cannot_be_asked(place: Place) -> None:
    place.epoch()
    nowhere = place.databases["sub2"].dsn.replace(place.databases["sub2"].name, "nowhere")
    await place.recover(retention_s=0.0, sub2=nowhere)
    assert len(place.fetch("log", "select epoch from msrepl.coordinator_epoch")) == 1


async def test_without_the_decision_log_nothing_is_decided(place: Place, epoch: int) -> None:
    place.prepare(f"twopc:c:{epoch}:1:pub")
    place.fetch("log", "alter table msrepl.decision rename to gone")
    with pytest.raises(psycopg.errors.UndefinedTable):
        await place.recover()
    assert len(place.prepared("pub")) == 1


@pytest.mark.parametrize("variant", ["presumed_abort", "last_agent"])
async def test_what_was_committed_alone_decides_nothing_for_others(
    place: Place, variant: str
) -> None:
    """A commit whose marker names no other site decides nothing for another branch of its gid.

    It is a transaction of the Subscriber's own tables, in which the Publisher has no branch.
    """
    epoch = place.epoch(variant)
    place.commit(f"twopc:c:{epoch}:1:sub1", "")
    place.prepare(f"twopc:c:{epoch}:1:pub")
    assert [one.outcome for one in await place.recover()] == [Outcome.ABORTED]
