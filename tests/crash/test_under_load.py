"""Tests of kills during many concurrent transactions, which share connections and decisions.

No protocol point is armed, so all transactions take their usual path. The oracle is a counter in
each row, which must be equal at both sites, and never less than what was acknowledged.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.grid.process import CoordinatorProcess
from tests.grid.program import Done
from tests.grid.rig import NODES, PUBLISHER, SITES, SUBSCRIBER, Rig
from twopc.names import PREFIX

WORKERS = 12
SEED = 7

VICTIMS = {
    "the coordinator": (),
    "the Publisher's server": (PUBLISHER,),
    "the Subscriber's server": (SUBSCRIBER,),
    "all servers": NODES,
}


@pytest.mark.sample(1, by=("victim",))
@pytest.mark.parametrize("commit", ["presumed_abort", "last_agent"])
@pytest.mark.parametrize("victim", VICTIMS)
def test_killed_among_many(rig: Rig, victim: str, commit: str) -> None:
    chance = random.Random(f"{SEED} {victim} {commit}")
    name = rig.fresh_name()
    rows = [rig.fresh_row() for _ in range(WORKERS)]
    task = rig.task(
        name, row=rows[0], workers=WORKERS, commit=commit,
        recovery_interval_s=0.2, in_doubt_after_s=0.5,
    )  # fmt: skip
    others = rig.others()

    with CoordinatorProcess(task) as process:
        process.answered("committed", chance.randrange(40, 120))
        if VICTIMS[victim]:
            rig.kill(VICTIMS[victim])
            rig.up()
            process.answered("committed", 5 * WORKERS)  # without a restart of the coordinator
            process.stop()
            process.end()
            assert process.exit_code == 0
        else:
            process.kill()
        told = [note for note in process.notes if isinstance(note, Done)]
    with CoordinatorProcess(rig.task(name)) as recovery:
        rig.nothing_prepared(name)
        assert recovery.done()
        recovery.end()

    assert rig.prepared(f"{PREFIX}:{name}:") == []
    assert rig.others() == others
    assert_counters(rig, rows, told, open_ends=0 if VICTIMS[victim] else 1)
    assert_same_branches(rig, name)


def assert_counters(rig: Rig, rows: list[int], told: list[Done], open_ends: int) -> None:
    """Check that counters are equal at both sites, with all acknowledged and no refused transactions.

    Args:

        open_ends: number of transactions of a worker that may be without an answer.
    """
    answers = Counter((note.row, note.outcome) for note in told)
    query = (
        "select id, balance - 100, msrepl_tran_version from account where id = any(%s) order by id"
    )
    there, here = (rig.fetch(site, query, (rows,)) for site in SITES)
    assert there == here
    for row, count, _ in there:
        least = answers[row, "committed"]
        most = least + answers[row, "in_doubt"] + open_ends
        assert least <= count <= most, f"row {row}: {count} of {answers}"


def assert_same_branches(rig: Rig, name: str) -> None:
    """Check that the same transactions have committed at both sites."""
    query = """
        select substring(gid from '^(.*):[^:]*$') from msrepl.branch_marker
        where starts_with(gid, %s) and not fence
        order by 1
    """
    there, here = (rig.fetch(site, query, (f"{PREFIX}:{name}:",)) for site in SITES)
    assert there
    assert there == here
