"""Tests that recovery records branches that are committed at the Publisher alone, with none prepared."""

from __future__ import annotations

import psycopg
import pytest

from tests.drivers.place import Place
from twopc.drivers.install import install_participant
from twopc.drivers.participant import ServerParticipant
from twopc.drivers.recorded_decisions import DecisionReader
from twopc.protocol.effects import Outcome

Told = list[tuple[str, str, str, str | None, bool]]


async def told(place: Place) -> Told:
    found = await place.heuristics()
    return [(one.gid, one.node, one.outcome, one.decided, one.damage) for one in found]


@pytest.mark.parametrize("variant", ["presumed_abort", "presumed_nothing", "last_agent"])
async def test_a_branch_of_the_publishers_alone_is_recorded(place: Place, variant: str) -> None:
    """A branch committed by hand at the Publisher alone is recorded once, as damage.

    The coordinator died before the Subscriber had prepared.
    """
    epoch = place.epoch(variant)
    both = f"twopc:c:{epoch}:4"
    place.commit(f"{both}:pub", "sub1")
    place.commit(f"{both}:sub1", "pub")
    alone = f"twopc:c:{epoch}:5:pub"
    place.commit(alone, "sub1")
    assert await place.recover() == []
    record = (alone, "pub", Outcome.COMMITTED, Outcome.ABORTED, True)
    assert await told(place) == [record]
    await place.recover()
    assert await told(place) == [record], "once"


async def test_a_branch_that_was_fenced_elsewhere_is_recorded(place: Place, epoch: int) -> None:
    gid = f"twopc:c:{epoch}:5:pub"
    place.commit(gid, "sub1")
    place.fetch("sub1", "select msrepl.fence_branch(%s, %s)", (f"twopc:c:{epoch}:5:sub1", ["pub"]))
    await place.recover()
    assert [gid for gid, *_ in await told(place)] == [gid]


async def test_what_is_not_settled_yet_is_not_taken_for_it(place: Place, epoch: int) -> None:
    """Transactions that are not settled at both sites, or whose markers are being removed, are not recorded.

    One is decided, and prepared at the Subscriber. Of the other, the Publisher's marker is removed.
    """
    place.commit(f"twopc:c:{epoch}:5:pub", "sub1")
    place.prepare(f"twopc:c:{epoch}:5:sub1")
    place.decide(epoch, 5)
    place.commit(f"twopc:c:{epoch}:6:sub1", "pub")  # the Publisher's marker is removed first
    assert [one.node for one in await place.recover()] == ["sub1"]
    assert await told(place) == []


async def test_a_subscriber_of_another_time_is_not_asked(place: Place, epoch: int) -> None:
    """A former Subscriber is no participant any more, so no branch of it is looked up."""
    place.commit(f"twopc:c:{epoch}:5:pub", "sub9")
    assert await place.recover() == []
    assert await told(place) == []


async def test_a_site_that_is_away_is_compared_later(place: Place, epoch: int) -> None:
    place.commit(f"twopc:c:{epoch}:5:pub", "sub1")
    async with place.recovery(sub1="host=127.0.0.1 port=1 dbname=x user=x") as recovery:
        await recovery.run()
        assert await told(place) == []
    await place.recover()
    assert len(await told(place)) == 1


async def test_markers_are_kept_until_the_difference_is_recorded(
    place: Place, epoch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    gid = f"twopc:c:{epoch}:5:pub"
    place.commit(gid, "sub1")

    async def fails(*_: object, **__: object) -> None:
        raise psycopg.OperationalError("the distribution database is down")

    async with place.recovery(retention_s=0.0) as recovery:
        with monkeypatch.context() as patch:
            patch.setattr(DecisionReader, "damage", fails)
            await recovery.run()
        await recovery.run()
    assert [gid for gid, *_ in await told(place)] == [gid]
    assert place.fetch("pub", "select gid from msrepl.branch_marker") == []


async def test_a_branch_that_was_open_at_the_comparison_is_compared_later(
    place: Place, epoch: int
) -> None:
    """A role that is not the coordinator's has prepared the branch, so that it is left to an operator."""
    gid = f"twopc:c:{epoch}:5:pub"
    place.prepare(gid)
    async with place.recovery(retention_s=0.0) as recovery:
        with pytest.MonkeyPatch.context() as patch:

            async def wait(*_: object) -> None:
                return

            patch.setattr(recovery, "_settle_undecided", wait)
            await recovery.run()
        place.fetch("pub", f"commit prepared '{gid}'")
        assert await recovery.run() == []
    assert [gid for gid, *_ in await told(place)] == [gid]


@pytest.mark.parametrize("variant", ["presumed_abort", "presumed_nothing", "last_agent"])
async def test_a_branch_of_a_subscribers_alone_is_recorded(place: Place, variant: str) -> None:
    """The Publisher's branch was rolled back, and the Subscriber's is committed: by the decision of the last agent,
    or manually.
    """
    epoch = place.epoch(variant)
    both, alone = f"twopc:c:{epoch}:4", f"twopc:c:{epoch}:5"
    place.commit(f"{both}:pub", "sub1")
    place.commit(f"{both}:sub1", "pub", calls=1)
    place.prepare(f"{alone}:pub")
    place.commit(f"{alone}:sub1", "pub", calls=1)
    place.fetch("pub", f"rollback prepared '{alone}:pub'")
    record = (f"{alone}:sub1", "sub1", Outcome.COMMITTED, Outcome.ABORTED, True)
    if variant == "last_agent":
        record = (f"{alone}:pub", "pub", Outcome.ABORTED, Outcome.COMMITTED, True)
    for _ in "twice":
        assert await place.recover() == []
        assert await told(place) == [record]


async def test_a_marker_that_was_released_shows_nothing(place: Place, epoch: int) -> None:
    """A process was killed after it had removed the Publisher's marker, before it removed the Subscriber's."""
    gid = f"twopc:c:{epoch}:5:sub1"
    place.commit(gid, "pub", calls=1)
    place.fetch("sub1", "select msrepl.release_branches(array[%s])", (gid,))
    await place.recover()
    assert await told(place) == []


async def test_an_epoch_that_is_being_forgotten_is_no_damage(place: Place, epoch: int) -> None:
    """Recovery is killed between the Publisher and the Subscriber."""
    place.commit(f"twopc:c:{epoch}:5:pub", "sub1")
    place.commit(f"twopc:c:{epoch}:5:sub1", "pub", calls=1)
    forget = ServerParticipant.forget_epoch

    async def fails(self: ServerParticipant, prefix: str, rows_max: int) -> int:
        if self.name != "pub":
            raise psycopg.OperationalError("killed")
        return await forget(self, prefix, rows_max)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServerParticipant, "forget_epoch", fails)
        await place.recover(retention_s=0.0)
    assert place.fetch("pub", "select gid from msrepl.branch_marker") == []
    await place.recover(retention_s=0.0)
    assert await told(place) == []
    assert place.fetch("sub1", "select gid from msrepl.branch_marker") == []


async def test_what_the_decision_log_has_told_is_not_told_again(place: Place, epoch: int) -> None:
    """The decision is kept as evidence: the Publisher's commit was right, although it is alone."""
    gid = f"twopc:c:{epoch}:5"
    place.commit(f"{gid}:pub", "sub1")
    place.decide(epoch, 5)
    record = (f"{gid}:sub1", "sub1", Outcome.ABORTED, Outcome.COMMITTED, True)
    for _ in "twice":
        await place.recover()
        assert await told(place) == [record]


async def test_a_subscriber_that_only_read_is_no_damage(place: Place, epoch: int) -> None:
    """It has no marker; a Publisher's branch is compared with the Subscriber whose changes it made."""
    sites = ("pub", "pub/sub2", "sub1", "sub2")
    place.commit(f"twopc:c:{epoch}:5:pub", *sites)
    place.commit(f"twopc:c:{epoch}:5:sub1", *sites, calls=1)
    further = f"twopc:c:{epoch}:6:pub/sub2"
    place.commit(further, "pub/sub2", "pub", "sub1", "sub2", node="pub")
    place.commit(f"twopc:c:{epoch}:6:sub2", "pub/sub2", "pub", "sub1", "sub2", calls=1)
    await place.recover()
    assert await told(place) == []
    place.fetch("sub2", "delete from msrepl.branch_marker")
    await place.recover()
    assert [gid for gid, *_ in await told(place)] == [further]


async def test_what_an_earlier_version_has_left_shows_nothing(place: Place, epoch: int) -> None:
    """It removed markers without releasing them; the function is created when the topology is opened again."""
    place.commit(f"twopc:c:{epoch}:5:sub1", "pub", calls=1)
    place.fetch("sub1", "drop function msrepl.release_branches(text[])")
    dsn = place.databases["sub1"].dsn
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await install_participant(connection, "postgres", "postgres")
    place.commit(later := f"twopc:c:{epoch}:6:sub1", "pub", calls=1)
    await place.recover()
    assert [gid for gid, *_ in await told(place)] == [later]
