"""Faults that strike while a coordinator's process is halted at a protocol point.

Each fault is real: SIGKILL, a shutdown, ``pg_terminate_backend``. Faults must not depend on the
expected outcome.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from tests.grid.invariants import Evidence
from tests.grid.process import CoordinatorProcess
from tests.grid.program import Task
from tests.grid.rig import LOG, NODES, PUBLISHER, SUBSCRIBER, Rig
from twopc.server.polling import wait_for
from twopc.waits import link_name

Strike = Callable[[Rig, CoordinatorProcess], bool]
"""Performs the fault; returns False if there is no target."""
Judge = Callable[[Rig, Evidence, list[str]], list[str]]
"""Returns the violations, given those that the invariants report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of fault."""

    name: str
    row: str
    """Row of the crash matrix."""
    strike: Strike
    stays: bool = False
    """The target stays down until the process has answered, or ended."""
    kills_coordinator: bool = False
    heal: Callable[[Rig, CoordinatorProcess], None] | None = None
    """Restores what `rig.up` does not, after the process has answered or ended."""
    lead: Callable[[Rig, Task], Task] | None = None
    """Redirects the process's connections before it is started; `end` undoes it."""
    end: Callable[[], None] | None = None
    is_shared: bool = False
    """Several transactions can be at their points for one strike, because it affects all sessions."""
    judge: Judge | None = None
    """Removes violations that the fault itself causes, and adds those of what it requires."""


def _kill_coordinator(rig: Rig, process: CoordinatorProcess) -> bool:
    process.kill()
    return True


def _kill_servers(nodes: Iterable[str], rig: Rig, process: CoordinatorProcess) -> bool:
    rig.kill(nodes)
    rig.up()
    return True


def _keep_down(nodes: Iterable[str], rig: Rig, process: CoordinatorProcess) -> bool:
    rig.kill(nodes)
    return True


def _kill_all(nodes: Iterable[str], rig: Rig, process: CoordinatorProcess) -> bool:
    rig.kill(nodes)
    process.kill()
    rig.up()
    return True


def _shut_down(node: str, how: str, rig: Rig, process: CoordinatorProcess) -> bool:
    server = rig.servers[node]
    if how == "immediate":
        server.crash()
    server.restart()  # a fast shutdown, if the server still runs
    return True


# -- single sessions -------------------------------------------------------------------------------

SESSION = "the application's session"
LINK = "the link"
FINISHER = "the finisher"
DECISIONS = "the session of the decision log"
SESSIONS = (SESSION, LINK, FINISHER, DECISIONS)

_BY_NAME = """
select pid from pg_stat_activity
where datname = current_database() and application_name like %s and pid <> pg_backend_pid()
"""


def backends(rig: Rig, name: str, session: str) -> tuple[str, list[int]]:
    """Return the node of a coordinator's sessions of one kind, and their pids."""
    if session == DECISIONS:
        return LOG, _pids(rig, LOG, f"twopc decisions {name}")
    if session == FINISHER:
        return PUBLISHER, _pids(rig, PUBLISHER, f"twopc finisher {name}")
    applications = _pids(rig, SUBSCRIBER, f"twopc % {name}", digits=True)
    if session == SESSION:
        return SUBSCRIBER, applications
    links = [
        pid for one in applications for pid in _pids(rig, PUBLISHER, link_name(SUBSCRIBER, one))
    ]
    return PUBLISHER, links


def _pids(rig: Rig, node: str, pattern: str, *, digits: bool = False) -> list[int]:
    query = _BY_NAME + (" and application_name ~ '^twopc [0-9]+ '" if digits else "")
    return [pid for (pid,) in rig.fetch(node, query, (pattern,))]


def _signal_backends(session: str, function: str, rig: Rig, process: CoordinatorProcess) -> bool:
    """Terminate the backends, and wait for their end, or cancel them."""
    node, pids = backends(rig, process.task.coordinator, session)
    for pid in pids:
        rig.fetch(node, f"select {function}", (pid,))
    return bool(pids)


def _kill_backends(session: str, rig: Rig, process: CoordinatorProcess) -> bool:
    """Send SIGKILL to the backends; the server restarts all sessions, and is up on return."""
    node, pids = backends(rig, process.task.coordinator, session)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    if pids:
        wait_for(
            partial(_is_up_again, rig, node, pids), what=f"{node} to be up again", timeout_s=30
        )
    return bool(pids)


def _is_up_again(rig: Rig, node: str, pids: list[int]) -> bool:
    alive = rig.try_fetch(node, "select pid from pg_stat_activity where pid = any(%s)", (pids,))
    return alive == []


_TERMINATE = "pg_terminate_backend(%s, 5000)"
_CANCEL = "pg_cancel_backend(%s)"
_GROUPS = {
    "the Publisher's server": (PUBLISHER,),
    "the Subscriber's server": (SUBSCRIBER,),
    "the decision log's server": (LOG,),
    "both sites' servers": (PUBLISHER, SUBSCRIBER),
    "all servers": NODES,
}

KILLED = Fault(name="the coordinator", row="M1", strike=_kill_coordinator, kills_coordinator=True)

SERVERS_KILLED = tuple(
    Fault(
        name=name,
        row="M3" if len(nodes) == 1 else "M4",
        strike=partial(_kill_servers, nodes),
        is_shared=True,
    )
    for name, nodes in _GROUPS.items()
)

FAULTS = (
    KILLED,
    *SERVERS_KILLED,
    *(
        Fault(
            name=f"{name}, down until the answer",
            row="M3" if len(nodes) == 1 else "M4",
            strike=partial(_keep_down, nodes),
            stays=True,
            is_shared=True,
        )
        for name, nodes in _GROUPS.items()
    ),
    *(
        Fault(
            name=f"{name} and the coordinator",
            row="M4",
            strike=partial(_kill_all, nodes),
            kills_coordinator=True,
            is_shared=True,
        )
        for name, nodes in _GROUPS.items()
    ),
    *(
        Fault(name=f"backend of {session}", row="M5", strike=partial(_kill_backends, session))
        for session in SESSIONS
    ),
    *(
        Fault(
            name=f"{session} {word}", row="M6", strike=partial(_signal_backends, session, function)
        )
        for session in SESSIONS
        for word, function in (("terminated", _TERMINATE), ("cancelled", _CANCEL))
    ),
    *(
        Fault(
            name=f"{how} shutdown of {node}",
            row="M6",
            strike=partial(_shut_down, node, how),
            is_shared=True,
        )
        for node in NODES
        for how in ("fast", "immediate")
    ),
)
