"""Dependences of the model, compared with the recorded accesses to its state: see `tests.explore.footprints`.

Concurrent events of the recorded runs do not conflict, and each function that notifies the search is necessary: without
its notifications they do, or the function is listed with a reason. So a missing notification is detected in all code
that these runs reach, and a new function needs such a run, or a reason.
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
#: Runs in which a dependence was missing; each is recorded now.
_FIXED = (
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
#: Runs that show that functions are necessary; `python -m tests.explore.footprints --cover` chooses such runs.
_SHOWING = (
    "3.0", "6.0", "42.0", "44.0", "63.0", "108.0", "355.58", "1011.0", "1020.0", "1041.0", "1069.0", "1133.0",
    "1146.0", "1161.0", "1290.0", "1379.0", "1386.0", "2258.0", "2352.0", "2900.0", "2918.0", "2920.0", "2923.0",
    "2951.0", "3060.0", "3250.0", "78.0:flush of the decision log", "125.0", "171.0", "2743.0", "2801.0", "2861.0",
)  # fmt: skip
RUNS = (*_FIXED, *_SHOWING)

_FAULT = "only faults and timers lead here, and their own events already depend on the whole node"
_LOG = "the protocol orders the conflicting events: by epochs, their holders and answers"
_UNREACHED = "no recorded run reaches it"
_SAME = "in all runs so far another function has notified the search of the same, or of its cause"
_COPY = "a pass of recovery begins with a timer or with its process, and then uses a copy"
#: Functions that no run shows to be necessary, with the reason.
UNSHOWN = {
    "_ModelEngine._end": _COPY,
    "_ModelEngine._register": _COPY,
    "_ModelEngine.begin": _COPY,
    "_ModelEngine.begin_several": _COPY,
    "_Open.__contains__": _COPY,
    "_Open.__init__": _COPY,
    "_Publisher.end_links.<locals>.end": _SAME,
    "_Publisher.idle_links.<locals>.look": _SAME,
    "_Recovery.run": _COPY,
    "_Subscriber.hold": _SAME,
    "_Subscriber.holds": _SAME,
    "Advisory.give": _SAME,
    "Connection.ask.<locals>.done": _SAME,
    "crash": _FAULT,
    "DecisionLedger.crash": _FAULT,
    "fence": _SAME,
    "LedgerSession.close_decision": _UNREACHED,
    "LedgerSession.closed_decisions": _LOG,
    "LedgerSession.decided": _LOG,
    "LedgerSession.forget": _LOG,
    "LedgerSession.forget_epoch": f"{_UNREACHED}: the epoch is kept for ten minutes",
    "LedgerSession.read": _LOG,
    "LedgerSession.resume_epoch": _LOG,
    "Link._waiting": _SAME,
    "Locks._wake": _SAME,
    "Locks.release": _SAME,
    "Locks.xact": _SAME,
    "ModelAnyClients.has_link": _SAME,
    "ModelLog._fence": f"{_UNREACHED}: it fences a live process",
    "ModelLog._open_epoch": _SAME,
    "ModelLog.current": _SAME,
    "ModelLog.epoch": _SAME,
    "ModelNode.prepared_by": _SAME,
    "ModelNode.record": "it orders more than necessary: other events read the end of a commit, not its beginning",
    "ModelResolverLock.give": _SAME,
    "ModelResolverLock.try_lock": _SAME,
    "NodeSession.cancel": _SAME,
    "PreparedTransaction._commit_later": f"{_UNREACHED}: only participants with a planted bug do not force commits",
    "restore": f"{_UNREACHED}: no step of a program restores a backup",
    "ScriptRun._client": "each step of a client is the cause of the next",
    "Ssi.begin": _SAME,
    "Ssi.check_read": _SAME,
    "Ssi.end": _SAME,
    "Ssi.read": _SAME,
    "Ssi.wrote": _SAME,
    "Wal.append": _SAME,
    "Wal.durable": _SAME,
    "Wal.end": _SAME,
    "Wal.force": _SAME,
    "Wal.reached": f"{_UNREACHED}: only participants with a planted bug do not force commits",
    "Wal.soon": _SAME,
}
#: Attributes with containers that were created outside the model, and whose elements are not recorded.
_UNNOTED = {
    "SubscriberClient._numbers": "numbers of one client",
    "Brackets._tables": "created by the compiled scanner",
}


@cache
def _found() -> dict[str, Any]:
    """Play the runs in a new process, which loads the model with recording classes."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.explore.footprints", "--json", *RUNS],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    results: dict[str, Any] = json.loads(done.stdout)
    return results


@pytest.mark.parametrize("run", RUNS)
def test_concurrent_events_do_not_conflict(run: str) -> None:
    """Concurrent events only read a common location, or their order has no effect."""
    assert [one for one in _found()["conflicts"] if one.startswith(f"{run}: ")] == []


@pytest.mark.parametrize("place", places().names)
def test_a_notification_is_necessary(place: str) -> None:
    """Without the notifications of a function, concurrent events of some run conflict."""
    assert (place in _found()["shown"]) != (place in UNSHOWN)


def test_the_tables_are_not_stale() -> None:
    """Each entry names something that exists and is necessary, and has a true reason."""
    found = _found()
    unreached = {place for place, why in UNSHOWN.items() if why.startswith(_UNREACHED)}
    assert sorted(unreached & {*found["reached"]}) == []
    assert [one for one in BENIGN if one not in found["needed"]] == []
    assert [one for one in UNSHOWN if one not in places().names] == []
    assert {
        one for one in found["unnoted"] if not {one, one.partition(".")[0]} & _UNNOTED.keys()
    } == set()


def _used(container: Any, use: Any) -> dict[Any, int]:
    """Return the accesses of an event to a container that another event has created."""
    made = tracked(container, "here")
    Recorder.begin()
    try:
        use(made)
    finally:
        used = Recorder.end()
    return {key: max(by.values()) for (_, key), by in used.items()}


def test_a_dict_is_noted_by_key() -> None:
    """Accesses to a dict are recorded by key; those to the whole dict separately."""
    assert _used({1: 2}, lambda made: made[1]) == {1: READ}
    assert _used({1: 2}, lambda made: made.get(3)) == {3: READ}
    assert _used({1: 2}, lambda made: made.update({3: 4})) == {3: WRITE, WHOLE: GROW, SIZE: GROW}
    assert _used({1: 2}, lambda made: [*made.items()])[WHOLE] == READ
    assert _used({1: 2}, lambda made: made.pop(3, None)) == {3: READ}


def test_a_set_and_a_list_are_noted() -> None:
    """Accesses to a set are recorded by element, those to a list as a whole."""
    assert _used({1}, lambda made: made.add(1)) == {1: READ}
    assert _used({1}, lambda made: made.add(2))[2] == WRITE
    assert _used([1], lambda made: made.append(2)) == {WHOLE: WRITE}
    assert _used([1], lambda made: made[0]) == {WHOLE: READ}


def test_what_is_put_back_was_only_read() -> None:
    """A location whose value is the same after the event counts as read."""

    def use(made: Any) -> None:
        made[1] = 3
        made[1] = 2

    assert _used({1: 2}, use)[1] == READ
