"""Dependences of the model, compared with what its state itself says: see `tests.explore.footprints`.

In recorded runs concurrent events conflict nowhere; and each function that tells the search of a dependence is needed:
without what it tells they do. So a missing call is noticed in what these runs reach, also in new code.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.explore.footprints.accesses import GROW, READ, SIZE, WHOLE, WRITE, Recorder
from tests.explore.footprints.benign import BENIGN
from tests.explore.footprints.containers import tracked
from tests.explore.footprints.places import places

pytestmark = pytest.mark.xdist_group("footprints")  # one process plays the runs

ROOT = Path(__file__).parents[2]
#: Runs in which a dependence was missing that is told now.
_MENDED = (
    "0.0",  # a sync that waits for its turn, and the end of another one
    "5.0",  # the role of a link, which one transaction finds out and another one needs
    "8.0",  # a decision to be forgotten, and recovery that forgets
    "13.0",  # the resolver that falls asleep, and the commit that wakes it
    "20.0",  # the resolver's pause, and a client that shortens it
    "138.0",  # a new connection to the decision log, and a decision
    "204.0",  # a session that is to be ended, and ends by itself
    "219.0",  # the end of a serializable transaction that has only read
    "302.0",  # an older session of an agent, and its end
    "1033.0",  # advisory locks of a session, and its end
    "1048.0",  # a lost answer, and a transaction that begins to wait for it
    "1049.0",  # answers to a process that is paused
    "2542.0",  # a connection that is lost, and a client that looks at it
    "2974.0",  # a session that dies, and an answer of another node after which it is given back
    "4020.0",  # a session that ends by itself, and a rollback that looks whether it is in a transaction
)
#: Runs that show places; `python -m tests.explore.footprints --cover` finds such a choice.
_SHOWING = (
    "3.0", "6.0", "42.0", "44.0", "63.0", "108.0", "355.58", "1011.0", "1020.0", "1041.0", "1069.0", "1133.0",
    "1146.0", "1161.0", "1290.0", "1379.0", "1386.0", "2258.0", "2352.0", "2900.0", "2918.0", "2920.0", "2923.0",
    "2951.0", "3060.0", "3250.0", "78.0:flush of the decision log",
)  # fmt: skip
RUNS = (*_MENDED, *_SHOWING)

_FAULT = "only a fault or a timer comes to this, and touches the whole node by itself"
_LOG = "reached apart from its opposite only if the protocol is broken: epochs, holders and answers order the two"
_UNREACHED = "no drawn run comes to this"
_SAME = "others have told the same, or what causes it, in all runs so far"
_COPY = "a pass of recovery begins with a timer, or with its process; in between it tests a copy"
#: Places that no run shows, with the reason.
UNSHOWN = {
    "DecisionLedger.crash": _FAULT,
    "LedgerSession.close_decision": _UNREACHED,
    "LedgerSession.decided": _LOG,
    "LedgerSession.forget": _LOG,
    "LedgerSession.forget_epoch": f"{_UNREACHED}: the epoch is kept for ten minutes",
    "LedgerSession.read": _LOG,
    "LedgerSession.resume_epoch": _LOG,
    "Locks.xact": _SAME,
    "ModelAnyClients.has_link": _SAME,
    "ModelLog.current": _SAME,
    "ModelNode.prepared_by": _SAME,
    "ModelLog._fence": f"{_UNREACHED}: a process is fenced that is alive",
    "ModelNode.record": "it orders more than is needed: others see the end of a commit, not its beginning",
    "ModelResolverLock.give": _SAME,
    "ModelResolverLock.try_lock": _SAME,
    "NodeSession.cancel": _SAME,
    "NodeSession.terminate": _SAME,
    "PreparedTransaction._commit_later": f"{_UNREACHED}: only planted participants do not force commits",
    "Wal.reached": f"{_UNREACHED}: only planted participants do not force commits",
    "ScriptRun._client": "each step of a client causes the next one",
    "_ModelEngine._end": _COPY,
    "_ModelEngine._register": _COPY,
    "_ModelEngine.begin": _COPY,
    "_ModelEngine.begin_several": _COPY,
    "_Open.__contains__": _COPY,
    "_Open.__init__": _COPY,
    "_Open.__rsub__": _COPY,
    "_Publisher.idle_links.<locals>.look": _SAME,
    "_Recovery.run": _COPY,
    "_Subscriber.hold": _SAME,
    "_Subscriber.holds": _SAME,
    "crash": _FAULT,
    "fence": _SAME,
    "restore": f"{_UNREACHED}: no step of a program restores a backup",
}
#: Attributes that hold containers made elsewhere, whose elements are not recorded.
_UNNOTED = {
    "SubscriberClient._numbers": "numbers of one client",
    "Brackets._tables": "made by the compiled scanner",
    "TransactionColumns": "made by the compiled scanner",
    "CommandColumns": "made by the compiled scanner",
}


@cache
def _found() -> dict[str, Any]:
    """Play the runs, in a process that loads the model anew."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.explore.footprints", "--json", *RUNS],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    results: dict[str, Any] = json.loads(done.stdout)
    return results


@pytest.mark.parametrize("run", RUNS)
def test_concurrent_events_do_not_conflict(run: str) -> None:
    """What they use of one location they only read, or the order is one that nobody can see."""
    assert [one for one in _found()["conflicts"] if one.startswith(f"{run}: ")] == []


@pytest.mark.parametrize("place", places().names)
def test_what_is_told_is_needed(place: str) -> None:
    """Without what a function tells, concurrent events of some run conflict."""
    assert (place in _found()["shown"]) != (place in UNSHOWN)


def test_the_tables_are_not_stale() -> None:
    """Each entry is of something that exists, and is needed."""
    found = _found()
    assert [one for one in BENIGN if one not in found["needed"]] == []
    assert [one for one in UNSHOWN if one not in places().names] == []
    assert {
        one for one in found["unnoted"] if not {one, one.partition(".")[0]} & _UNNOTED.keys()
    } == set()


def _used(container: Any, use: Any) -> dict[Any, int]:
    """What one event notes when it uses a container that another has made."""
    made = tracked(container, "here")
    Recorder.begin()
    try:
        use(made)
    finally:
        used = Recorder.end()
    return {key: max(by.values()) for (_, key), by in used.items()}


def test_a_dict_is_noted_by_key() -> None:
    """Changes of different keys do not conflict with each other, but with a look at all of them."""
    assert _used({1: 2}, lambda made: made[1]) == {1: READ}
    assert _used({1: 2}, lambda made: made.get(3)) == {3: READ}
    assert _used({1: 2}, lambda made: made.update({3: 4})) == {3: WRITE, WHOLE: GROW, SIZE: GROW}
    assert _used({1: 2}, lambda made: [*made.items()])[WHOLE] == READ
    assert _used({1: 2}, lambda made: made.pop(3, None)) == {3: READ}


def test_a_set_and_a_list_are_noted() -> None:
    """A set by element, a list as a whole."""
    assert _used({1}, lambda made: made.add(1)) == {1: READ}
    assert _used({1}, lambda made: made.add(2))[2] == WRITE
    assert _used([1], lambda made: made.append(2)) == {WHOLE: WRITE}
    assert _used([1], lambda made: made[0]) == {WHOLE: READ}


def test_what_is_put_back_was_only_read() -> None:
    """A value that is in the end what it was before."""

    def use(made: Any) -> None:
        made[1] = 3
        made[1] = 2

    assert _used({1: 2}, use)[1] == READ
