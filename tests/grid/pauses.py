"""M22: A coordinator is stopped by SIGSTOP, another of its name recovers, and the first continues.

A stopped process keeps its sockets, and with them the lock of its epoch: it must not be fenced
then. After its sessions are terminated from outside it can be fenced, and its later messages have
no effect.
"""

from __future__ import annotations

import os
import signal
from functools import partial

import psutil

from tests.grid.faults import Fault
from tests.grid.process import CoordinatorProcess
from tests.grid.rig import NODES, Rig
from twopc.names import PREFIX
from twopc.server.polling import wait_for

_OF_COORDINATOR = """
select pg_terminate_backend(pid, 5000) from pg_stat_activity
where application_name like %s and pid <> pg_backend_pid()
"""


def _paused(ended: bool, rig: Rig, process: CoordinatorProcess) -> bool:
    """Stop the process, have another recover twice, and continue the first.

    Args:

        ended: all its sessions are terminated while it is stopped, as by a server whose client
            does not respond.
    """
    name = process.task.coordinator
    os.kill(process.pid, signal.SIGSTOP)
    wait_for(partial(_is_stopped, process.pid), what="the process to be stopped", timeout_s=10)
    try:
        if ended:
            for node in NODES:
                rig.fetch(node, _OF_COORDINATOR, (f"twopc % {name}",))
        before = rig.prepared(f"{PREFIX}:{name}:")
        with CoordinatorProcess(rig.task(name)) as second:
            assert second.done(), "the second coordinator did not come up"
            if ended:
                rig.nothing_prepared(name)
            second.recover()
            after = rig.prepared(f"{PREFIX}:{name}:")
            second.end()
        assert ended or after == before, f"it touched what a living one works on: {before}, {after}"
    finally:
        os.kill(process.pid, signal.SIGCONT)
    return True


def _is_stopped(pid: int) -> bool:
    return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)


PAUSES = (
    Fault(name="the coordinator paused", row="M22", strike=partial(_paused, False)),
    Fault(
        name="the coordinator paused, its sessions ended", row="M22", strike=partial(_paused, True)
    ),
)
