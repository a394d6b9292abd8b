"""The oracle of two servers during faults: I10, I11, and swarms of faults.

In the oracle's lane several clients repeat one transaction, which increments a counter and appends
the client's number to a list. Both sites must have the same count and the same list, in the same
order, and the list must contain what was acknowledged. The trace of a coordinator's machine is
replayed on a new machine, which must produce the same effects.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Self

from tests.grid.invariants import Evidence
from tests.grid.process import CoordinatorProcess
from tests.grid.program import Done, Waiting
from tests.grid.rig import NODES, PUBLISHER, SITES, SUBSCRIBER, TALLY, Rig
from twopc.drivers.plan import SETTINGS
from twopc.errors import ProtocolError
from twopc.protocol import Coordinator
from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol.effects import Outcome, Timer
from twopc.server.polling import wait_for

CLIENTS = 4
#: Time within which nothing may be in doubt after all faults are healed.
HEALED_S = 5.0
_RESEND = e.TimerFired(name=Timer.RESEND)


def refines(evidence: Evidence, commit: str) -> list[str]:
    """I10: A new machine that receives the same events produces the same effects.

    Deadlines differ, and the driver immediately resends once what was not acknowledged.
    """
    machine = Coordinator(SETTINGS[commit])
    machine.receive(e.Begin(participants=SITES), 0.0)
    expected: deque[x.Effect] = deque()
    resent = False
    for number, note in enumerate(evidence.trace):
        what = note.what
        if isinstance(what, x.Effect):
            found = expected.popleft() if expected else None
            if not _same(what, found):
                return [f"I10: effect {number} was {what}, and of a new machine {found}"]
            continue
        try:
            expected.extend(machine.receive(what, 0.0))
            lost = isinstance(what, e.AckLost) and machine.outcome is Outcome.COMMITTED
            if lost and not resent:
                resent = True
                expected.extend(machine.receive(_RESEND, 0.0))
        except ProtocolError as error:
            return [f"I10: no new machine takes event {number}: {error}"]
    return []


def _same(one: x.Effect, other: x.Effect | None) -> bool:
    if isinstance(one, x.SetTimer) and isinstance(other, x.SetTimer):
        return one.name == other.name
    return one == other


class Lane:
    """Clients that increment and append during a block; a context manager.

    `broken` lists the violations afterwards.
    """

    def __init__(self, rig: Rig, commit: str = "presumed_abort") -> None:
        self._rig = rig
        self._tally = rig.fresh_tally()
        self.name = rig.fresh_name()
        self.broken: list[str] = []
        self._task = rig.task(
            self.name, row=1, workers=CLIENTS, commit=commit, statement=TALLY.format(self._tally),
            recovery_interval_s=0.2, in_doubt_after_s=0.5,
        )  # fmt: skip
        self._before = self._read(PUBLISHER)
        self._told: Counter[tuple[int, str]] = Counter()
        self._killed = 0
        self._process: CoordinatorProcess
        self._hearing: threading.Thread

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._rig.up()
            self._end()
            self._judge()
        else:
            self.kill()

    @property
    def process(self) -> CoordinatorProcess:
        """The current coordinator process."""
        return self._process

    @property
    def committed(self) -> int:
        """Number of transactions acknowledged by the current process."""
        return sum(isinstance(n, Done) and n.outcome == "committed" for n in [*self._process.notes])

    def kill(self) -> None:
        """Kill the coordinator with SIGKILL."""
        os.kill(self._process.pid, signal.SIGKILL)
        self._killed += 1
        self._hear_the_last()

    def restart(self) -> None:
        """Kill the coordinator, and start another one, which recovers."""
        self.kill()
        self._rig.up()  # a coordinator that cannot reach the decision log does not start
        self._start()

    def _start(self) -> None:
        self._process = CoordinatorProcess(self._task)
        self._hearing = threading.Thread(target=self._process.ended, daemon=True)
        self._hearing.start()

    def _hear_the_last(self) -> None:
        self._hearing.join()
        for note in self._process.notes:
            if isinstance(note, Done):
                self._told[note.row, note.outcome] += 1
        self._process.__exit__(None, None, None)

    def _end(self) -> None:
        """Stop the clients, and then the coordinator."""
        self._process.stop()
        wait_for(
            lambda: any(isinstance(note, Waiting) for note in [*self._process.notes]),
            what="the oracle's clients to stop",
            timeout_s=60,
        )
        self._process.stop()
        self._hear_the_last()

    def _read(self, site: str) -> tuple[int, str]:
        rows = self._rig.fetch(site, "select count, list from tally where id = %s", (self._tally,))
        return int(rows[0][0]), str(rows[0][1])

    def _judge(self) -> None:
        """Recover, and compare both sites with each other and with what was acknowledged."""
        with CoordinatorProcess(self._rig.task(self.name)) as recovery:
            try:
                self._rig.nothing_prepared(self.name, HEALED_S)
            except TimeoutError as error:
                self.broken.append(f"I5: {error}")
            recovery.done()
            recovery.end()
        there, here = (self._read(site) for site in SITES)
        if there != here:
            self.broken.append(f"I11: the ends count and list {there} and {here}")
        count = there[0] - self._before[0]
        listed = Counter(there[1].removeprefix(self._before[1]).split(";")[:-1])
        if count != listed.total():
            self.broken.append(f"I11: {count} were counted and {listed.total()} listed")
        for client in range(1, CLIENTS + 1):
            least = self._told[client, "committed"]
            most = least + self._told[client, "in_doubt"] + self._killed
            if not least <= listed[str(client)] <= most:
                self.broken.append(
                    f"I3: client {client} was told of {least} to {most}, and is listed"
                    f" {listed[str(client)]} times"
                )


# -- M35 -------------------------------------------------------------------------------------------

_SESSIONS = """
select pg_terminate_backend(pid) from pg_stat_activity
where application_name like %s and pid <> pg_backend_pid()
"""


def _kill_server(node: str, rig: Rig, lane: Lane) -> None:
    rig.kill([node])
    rig.up()


def _end_sessions(node: str, rig: Rig, lane: Lane) -> None:
    rig.fetch(node, _SESSIONS, (f"% {lane.name}",))


def _end_links(rig: Rig, lane: Lane) -> None:
    rig.fetch(PUBLISHER, _SESSIONS, (f"msrepl {SUBSCRIBER} %",))


def _restart_coordinator(rig: Rig, lane: Lane) -> None:
    lane.restart()


def _pause_coordinator(rig: Rig, lane: Lane) -> None:
    pid = lane.process.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        for node in NODES:
            _end_sessions(node, rig, lane)
    finally:
        os.kill(pid, signal.SIGCONT)


SWARM: Mapping[str, Callable[[Rig, Lane], None]] = {
    **{f"the server of {node} killed": partial(_kill_server, node) for node in NODES},
    **{f"sessions at {node} ended": partial(_end_sessions, node) for node in NODES},
    "links ended": _end_links,
    "the coordinator killed and started again": _restart_coordinator,
    "the coordinator paused, its sessions ended": _pause_coordinator,
}


def swarm(rig: Rig, seed: int, *, faults: int = 4, commit: str = "presumed_abort") -> Sequence[str]:
    """M35: Strike working clients with a sequence of random faults, then heal everything.

    Returns:

        Violations; each line names the seed and the faults.
    """
    chance = random.Random(f"swarm {seed}")
    drawn = [chance.choice(sorted(SWARM)) for _ in range(faults)]
    with Lane(rig, commit) as lane:
        for name in drawn:
            _some_more(lane, chance.randrange(3, 15))
            SWARM[name](rig, lane)
        _some_more(lane, CLIENTS)
    return [f"{line} (seed {seed}: {', '.join(drawn)})" for line in lane.broken]


def _some_more(lane: Lane, count: int) -> None:
    """Wait until `count` more transactions are acknowledged, without a restart."""
    until = lane.committed + count
    wait_for(lambda: lane.committed >= until, what=f"{count} more transactions", timeout_s=30)
