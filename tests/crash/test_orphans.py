"""M19: Tests of prepared transactions that recovery finds: its own and others'.

Recovery settles branches of its own coordinator's older epochs. All other prepared transactions
stay unchanged, to the byte.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from tests.grid.cells import KINDS, Cell, Kind, Place, Seen, play
from tests.grid.faults import KILLED
from tests.grid.process import CoordinatorProcess
from tests.grid.rig import LOG, PUBLISHER, SITES, SUBSCRIBER, Rig
from twopc.names import PREFIX

ALL_PREPARED = """
select gid, transaction::text, prepared::text, owner::text, database::text
from pg_prepared_xacts order by gid
"""


def everything(rig: Rig) -> list[tuple[object, ...]]:
    """Return every prepared transaction of both servers, in all databases."""
    return [row for site in SITES for row in rig.fetch(site, ALL_PREPARED)]


@pytest.fixture
def name(rig: Rig) -> Iterator[str]:
    """Return the name of a coordinator one of whose processes has died; epoch 1 of the log is its own.

    Transactions that a test prepares are rolled back afterwards.
    """
    before = {row[0] for row in everything(rig)}
    made = rig.fresh_name()
    with CoordinatorProcess(rig.task(made)) as process:
        process.done()
        process.kill()
    yield made
    for site in SITES:
        for gid, *_, database in rig.fetch(site, ALL_PREPARED):
            if gid not in before:
                dsn = rig.servers[site].superuser_dsn(database)
                with psycopg.connect(dsn, autocommit=True) as connection:
                    connection.execute(sql.SQL("rollback prepared {}").format(sql.Literal(gid)))


def epoch_of(rig: Rig, name: str) -> int:
    """Return the dead process's epoch."""
    query = "select min(epoch) from msrepl.coordinator_epoch where coordinator = %s"
    return int(rig.fetch(LOG, query, (name,))[0][0])


def not_ours(name: str, epoch: int) -> list[str]:
    """Return gids that resemble those of `name`."""
    return [
        f"{PREFIX}:{name}x:{epoch}:1:{PUBLISHER}",  # another coordinator with the same prefix
        f"{PREFIX}:{name[:-1]}:{epoch}:1:{PUBLISHER}",
        f"{PREFIX}:{name}:{epoch}:1",  # not a branch
        f"{PREFIX}:{name}:{epoch}:1:{PUBLISHER}:more",
        f"{PREFIX}:{name}:{epoch}:1:",
        f"{PREFIX}:{name}:0{epoch}:1:{PUBLISHER}",  # a number in another format
        f"{PREFIX}:{name}:-1:1:{PUBLISHER}",
        f"{PREFIX}:{name}:{epoch}:one:{PUBLISHER}",
        f"{PREFIX}:{name}:{epoch}:1:{SUBSCRIBER}",  # at the Publisher: another node's branch
        f"{PREFIX}:{name}:999999:1:{PUBLISHER}",  # an epoch that is not in the decision log
        f"{PREFIX.upper()}:{name}:{epoch}:1:{PUBLISHER}",
        f" {PREFIX}:{name}:{epoch}:1:{PUBLISHER}",
        f"{PREFIX}:{name}:{epoch}:1:{PUBLISHER}\n",
        f"{PREFIX}:%:{epoch}:1:{PUBLISHER}",
        "it's; rollback prepared 'x' --",
        "",
        "pg_gid_16394_77",
        "pg_gid_16394_77:pub",
        "é" * 99,
        "x" * 199,
    ]


def test_what_is_not_ours_is_left_alone(rig: Rig, name: str) -> None:
    for gid in not_ours(name, epoch_of(rig, name)):
        rig.plant(PUBLISHER, gid)
    before = everything(rig)

    with CoordinatorProcess(rig.task(name)) as process:
        assert process.done()
        assert process.recover() == ()
        process.end()

    assert everything(rig) == before


def test_another_database_of_the_server_is_left_alone(rig: Rig, name: str) -> None:
    """Recovery ignores a branch in another database of the server, even with one of its own gids."""
    gid = f"{PREFIX}:{name}:{epoch_of(rig, name)}:1:{PUBLISHER}"
    rig.plant(PUBLISHER, gid, database="postgres")
    before = everything(rig)

    with CoordinatorProcess(rig.task(name)) as process:
        assert process.done()
        assert process.recover() == ()
        process.end()

    assert everything(rig) == before


def test_a_living_process_keeps_its_branches(rig: Rig) -> None:
    """Recovery by one of two processes of a coordinator ignores the branches of the other."""
    seen = Seen.begin(rig, Kind())
    halt = "coordinator.before_decision"
    with CoordinatorProcess(rig.task(seen.name, row=seen.row, halt=halt)) as working:
        assert working.halted()
        between = rig.prepared(f"{PREFIX}:{seen.name}:")
        assert len(between) == len(SITES)
        with CoordinatorProcess(rig.task(seen.name)) as other:
            assert other.done()
            assert other.recover() == ()
            assert rig.prepared(f"{PREFIX}:{seen.name}:") == between
            working.go_on()
            working.end()
            assert working.answer is not None
            assert working.answer.outcome == "committed"
            other.end()


@pytest.mark.parametrize(("point", "outcome"), [
    ("coordinator.after_prepare(sub1)", "aborted"),
    ("coordinator.decision_logged", "committed"),
])  # fmt: skip
def test_a_living_process_settles_a_dead_ones(rig: Rig, point: str, outcome: str) -> None:
    """A live process of the same name settles a dead process's branches, without a new process."""
    seen = Seen.begin(rig, Kind())
    with CoordinatorProcess(rig.task(seen.name, recovery_interval_s=1.0)) as other:
        assert other.done()
        with CoordinatorProcess(rig.task(seen.name, row=seen.row, arm=f"{point}=kill")) as dying:
            dying.end()
            assert dying.was_killed
        rig.nothing_prepared(seen.name)
        other.end()
    state = seen.look(rig)
    for site in SITES:
        committed = any(not is_fence for _, is_fence in state.sites[site].markers)
        assert committed == (outcome == "committed"), site


def test_ours_of_an_older_epoch_are_settled_among_all_those(rig: Rig, name: str) -> None:
    for gid in not_ours(name, epoch_of(rig, name)):
        rig.plant(PUBLISHER, gid)
    before = everything(rig)

    for kind in KINDS[0], KINDS[4]:
        result = play(
            rig, Cell(kind=kind, place=Place(point="coordinator.after_prepare(pub)"), fault=KILLED)
        )
        assert result.broken == ()
        assert result.found_prepared == 1

    assert everything(rig) == before


def test_a_branch_of_another_owner_is_settled_as_that_owner(rig: Rig, name: str) -> None:
    """A branch is finished by the role that prepared it; the coordinator is a member of that role."""
    role = rig.node(SUBSCRIBER).app_role
    gid = f"{PREFIX}:{name}:{epoch_of(rig, name)}:1:{SUBSCRIBER}"
    before = everything(rig)
    rig.plant(SUBSCRIBER, gid, role=role)

    with CoordinatorProcess(rig.task(name)) as process:
        rig.nothing_prepared(name)
        process.end()

    assert everything(rig) == before


def test_a_branch_of_a_strangers_is_reported_and_left(rig: Rig, name: str) -> None:
    """A branch with one of our gids, but prepared by an unrelated role, is not finished.

    The coordinator is not a member of the role. Other branches are settled.
    """
    epoch = epoch_of(rig, name)
    rig.plant(PUBLISHER, f"{PREFIX}:{name}:{epoch}:1:{PUBLISHER}")  # prepared by a superuser
    before = everything(rig)
    rig.plant(
        SUBSCRIBER, f"{PREFIX}:{name}:{epoch}:2:{SUBSCRIBER}", role=rig.node(SUBSCRIBER).app_role
    )

    with CoordinatorProcess(rig.task(name)) as process:
        assert process.done()
        process.end()

    assert everything(rig) == before
