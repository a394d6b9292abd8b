"""M16, M17, M18, M21, M24: Servers without a standby, slots or free locks, and an empty decision log.

Everything is set and reset by SQL, except a setting with which the server does not start.
"""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import psycopg
from psycopg import sql

from tests.grid.faults import Fault
from tests.grid.invariants import Evidence
from tests.grid.process import CoordinatorProcess
from tests.grid.rig import LOG, SITES, Rig
from twopc.errors import ServerError
from twopc.names import PREFIX, branch_gid
from twopc.server.polling import wait_for

_LOOK_EVERY_S = 0.02

# -- M16 -------------------------------------------------------------------------------------------

_CANCEL = "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'"
_NAMES = "show synchronous_standby_names"


class _Unsynced:
    """Every commit waits for a standby that does not exist, until that wait is cancelled."""

    def __init__(self, site: str) -> None:
        self._site = site
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._cancelled = 0

    def strike(self, rig: Rig, process: CoordinatorProcess) -> bool:
        """Make PREPARE, COMMIT PREPARED and COMMIT report that they are not on the standby."""
        rig.fetch(self._site, "alter system set synchronous_standby_names = 'none_there'")
        rig.fetch(self._site, "select pg_reload_conf()")
        self._stop, self._cancelled = threading.Event(), 0
        self._thread = threading.Thread(target=self._cancel, args=(rig.node(self._site).dsn,))
        self._thread.start()
        wait_for(partial(self._waits, rig), what="commits to wait for a standby", timeout_s=10)
        return True

    def _waits(self, rig: Rig) -> bool:
        rig.fetch(self._site, "select pg_logical_emit_message(true, 'twopc crash', '')")
        return self._cancelled > 0

    def _cancel(self, dsn: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            while not self._stop.wait(_LOOK_EVERY_S):
                self._cancelled += len(connection.execute(_CANCEL).fetchall())

    def heal(self, rig: Rig, process: CoordinatorProcess) -> None:
        """Make commits wait for no standby."""
        rig.fetch(self._site, "alter system reset synchronous_standby_names")
        rig.fetch(self._site, "select pg_reload_conf()")
        wait_for(
            lambda: rig.fetch(self._site, _NAMES) == [("",)],
            what="commits to wait for nobody",
            timeout_s=10,
        )
        self._stop.set()
        if self._thread is not None:
            self._thread.join()


def _unsynced(site: str) -> Fault:
    made = _Unsynced(site)
    return Fault(
        name=f"no standby confirms at {site}", row="M16", strike=made.strike, heal=made.heal
    )


# -- M17 -------------------------------------------------------------------------------------------

_SLOTS = """
select current_setting('max_prepared_transactions')::int,
       (select count(*) from pg_prepared_xacts)
"""
_FILLERS = "select gid from pg_prepared_xacts where starts_with(gid, 'filler:')"


def _fill(site: str, percent: int, rig: Rig, process: CoordinatorProcess) -> bool:
    """Fill this percentage of the server's slots for prepared transactions."""
    most, held = rig.fetch(site, _SLOTS)[0]
    with psycopg.connect(rig.node(site).dsn, autocommit=True) as connection:
        for number in range(most * percent // 100 - held):
            connection.execute(f"begin; prepare transaction 'filler:{number}'".encode())
    return True


def _empty(site: str, rig: Rig, process: CoordinatorProcess) -> None:
    with psycopg.connect(rig.node(site).dsn, autocommit=True) as connection:
        for (gid,) in connection.execute(_FILLERS).fetchall():
            connection.execute(sql.SQL("rollback prepared {}").format(sql.Literal(gid)))


# -- M18 -------------------------------------------------------------------------------------------


def _fewer_slots(site: str, rig: Rig, process: CoordinatorProcess) -> bool:
    """Restart the server with fewer slots than it has prepared transactions.

    It refuses to start, and loses none of them. Then restore the setting.
    """
    server = rig.servers[site]
    own = f"{PREFIX}:{process.task.coordinator}:"
    before = rig.prepared(own), rig.others()
    settings = Path(rig.fetch(site, "show data_directory")[0][0]) / "postgresql.auto.conf"
    right = settings.read_bytes()
    rig.fetch(site, "alter system set max_prepared_transactions = 1")
    server.crash()
    try:
        server.restart()
    except ServerError as error:
        assert "max_prepared_transactions" in str(error), error
    else:
        raise AssertionError("the server has started without room for what is prepared")
    finally:
        settings.write_bytes(right)
        server.restart()
    assert (rig.prepared(own), rig.others()) == before
    return True


# -- M21 -------------------------------------------------------------------------------------------


def _lose_decisions(kills: bool, rig: Rig, process: CoordinatorProcess) -> bool:
    """Empty the decision log, as a wrong restore or an operator might."""
    lost = bool(rig.fetch(LOG, "select 1 from msrepl.decision"))
    rig.fetch(LOG, "truncate msrepl.decision")
    if kills:
        process.kill()
    return lost


def _forgotten(rig: Rig, evidence: Evidence, broken: list[str]) -> list[str]:
    """Accept a forgotten decision, which is the fault itself."""
    return [line for line in broken if not line.startswith("I8:")]


# -- M24 -------------------------------------------------------------------------------------------

_WAITS = """
select pid from pg_stat_activity where application_name = 'a newcomer' and wait_event_type = 'Lock'
"""


class _Newcomer:
    """A client that needs a lock of a prepared branch, and waits until the branch has ended."""

    def __init__(self, site: str, statement: str) -> None:
        self._site = site
        self._statement = statement
        self._thread: threading.Thread | None = None
        self._refused: list[str] = []

    def strike(self, rig: Rig, process: CoordinatorProcess) -> bool:
        """Start the client, and wait until it waits."""
        self._thread, self._refused = None, []
        if not process.gid or not rig.prepared(branch_gid(process.gid, self._site)):
            return False
        statement = self._statement.format(process.task.row)
        self._thread = threading.Thread(
            target=self._come, args=(rig.node(self._site).dsn, statement)
        )
        self._thread.start()
        wait_for(partial(rig.fetch, self._site, _WAITS), what="the newcomer to wait", timeout_s=10)
        return True

    def _come(self, dsn: str, statement: str) -> None:
        try:
            with psycopg.connect(dsn, application_name="a newcomer") as connection:
                connection.execute(statement.encode())
                connection.rollback()
        except psycopg.Error as error:
            self._refused.append(str(error))

    def heal(self, rig: Rig, process: CoordinatorProcess) -> None:
        """Check that the client got its lock after the branch has ended."""
        if self._thread is not None:
            self._thread.join(timeout=30)
            assert not self._thread.is_alive(), "a newcomer waits for a branch that has ended"
            assert self._refused == []


def _newcomer(site: str, what: str, statement: str) -> Fault:
    made = _Newcomer(site, statement)
    return Fault(name=f"{what} waits at {site}", row="M24", strike=made.strike, heal=made.heal)


SERVERS = (
    *(_unsynced(site) for site in SITES),
    *(
        Fault(
            name=f"{percent} % of the slots taken at {site}",
            row="M17",
            strike=partial(_fill, site, percent),
            heal=partial(_empty, site),
        )
        for site in SITES
        for percent in (50, 80, 100)
    ),
    *(
        Fault(name=f"too few slots at {site}", row="M18", strike=partial(_fewer_slots, site))
        for site in SITES
    ),
    *(
        Fault(
            name=f"the decision log emptied{' and the coordinator' if kills else ''}",
            row="M21",
            strike=partial(_lose_decisions, kills),
            kills_coordinator=kills,
            judge=_forgotten,
        )
        for kills in (False, True)
    ),
    *(
        _newcomer(site, what, statement)
        for site in SITES
        for what, statement in (
            ("a writer", "select 1 from account where id = {} for update"),
            ("a change of the table", "lock table account in access exclusive mode"),
        )
    ),
)
