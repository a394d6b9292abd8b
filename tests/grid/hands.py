"""M12, M13, M23: Faults by others that use our gids.

Requests are duplicated, gids are taken, and branches are finished manually, by SQL of a superuser
over a separate connection.
"""

from __future__ import annotations

from functools import partial

import psycopg
from psycopg import errors as pg
from psycopg import sql

from tests.grid.faults import Fault
from tests.grid.invariants import Evidence
from tests.grid.process import CoordinatorProcess
from tests.grid.rig import LOG, SITES, Rig
from twopc.names import branch_gid

_TAKEN = "select gid, transaction::text, owner::text from pg_prepared_xacts where gid = %s"
_HEURISTICS = """
select node, outcome, decided, damage from msrepl.heuristic_outcome where starts_with(gid, %s)
"""
COMMIT_PREPARED = "commit prepared {}"
ROLLBACK_PREPARED = "rollback prepared {}"


def _say(rig: Rig, site: str, gid: str, *commands: str, database: str = "") -> None:
    """Execute commands with a gid on one connection of a superuser, in autocommit."""
    dsn = rig.servers[site].superuser_dsn(database or rig.node(site).database)
    with psycopg.connect(dsn, autocommit=True) as connection:
        for command in commands:
            connection.execute(sql.SQL(command).format(sql.Literal(gid)))


def _is_prepared(rig: Rig, site: str, gid: str) -> bool:
    return bool(rig.fetch(site, _TAKEN, (gid,)))


# -- M12 -------------------------------------------------------------------------------------------


def _twice(rig: Rig, process: CoordinatorProcess) -> bool:
    """Repeat the coordinator's last or next request on another connection.

    Before the decision that is PREPARE of branches that are prepared already, after it
    COMMIT PREPARED.
    """
    gid = process.gid
    decided = _is_decided(rig, process)
    struck = False
    for site in SITES if gid else ():
        branch = branch_gid(gid, site)
        prepared = _is_prepared(rig, site, branch)
        if decided:
            try:
                _say(rig, site, branch, COMMIT_PREPARED)
                assert prepared, f"{branch} was committed twice"
            except pg.UndefinedObject:
                assert not prepared
            struck = True
        elif prepared:
            try:
                _say(rig, site, branch, "begin", "prepare transaction {}")
            except pg.DuplicateObject:
                struck = True
            else:
                raise AssertionError(f"{branch} is prepared twice")
    return struck


def _is_decided(rig: Rig, process: CoordinatorProcess) -> bool:
    if not process.gid:
        return False
    *_, epoch, sequence = process.gid.split(":")
    logged = rig.fetch(
        LOG,
        "select 1 from msrepl.decision where (epoch, sequence, kind) = (%s, %s, 'commit')",
        (int(epoch), int(sequence)),
    )
    return bool(logged)


# -- M13 -------------------------------------------------------------------------------------------


class _Takes:
    """A transaction that another client has prepared under our branch's gid before we do."""

    def __init__(self, site: str, database: str) -> None:
        self._site = site
        self._database = database
        self._held: list[tuple[object, ...]] = []

    def strike(self, rig: Rig, process: CoordinatorProcess) -> bool:
        """Take the gid if it is free."""
        self._held = []
        gid = branch_gid(process.gid, self._site)
        if not process.gid or process.task.row == 0:
            return False
        try:
            rig.plant(self._site, gid, database=self._database)
        except pg.DuplicateObject:
            return False
        self._held = rig.fetch(self._site, _TAKEN, (gid,))
        return True

    def heal(self, rig: Rig, process: CoordinatorProcess) -> None:
        """Check that the transaction is unchanged, and roll it back."""
        if not self._held:
            return
        gid = branch_gid(process.gid, self._site)
        try:
            held = rig.fetch(self._site, _TAKEN, (gid,))
            assert held == self._held, f"another's {self._held} is {held} now"
        finally:
            _say(rig, self._site, gid, ROLLBACK_PREPARED, database=self._database)
            self._held = []


def _taken(site: str, database: str, where: str) -> Fault:
    taker = _Takes(site, database)
    return Fault(
        name=f"gid taken at {site} in {where}", row="M13", strike=taker.strike, heal=taker.heal
    )


# -- M23 -------------------------------------------------------------------------------------------


def _by_hand(site: str, command: str, rig: Rig, process: CoordinatorProcess) -> bool:
    gid = branch_gid(process.gid, site) if process.gid else ""
    if not gid or not _is_prepared(rig, site, gid):
        return False
    _say(rig, site, gid, command)
    return True


def _by_hand_and_killed(site: str, command: str, rig: Rig, process: CoordinatorProcess) -> bool:
    struck = _by_hand(site, command, rig, process)
    process.kill()
    return struck


def told(rig: Rig, evidence: Evidence, broken: list[str]) -> list[str]:
    """Accept sites that differ only if both outcomes are recorded, and the application knows.

    If the sites do not differ, the invariants hold. A manual commit without a decision is also
    accepted if it is recorded.
    """
    found = rig.fetch(LOG, _HEURISTICS, (f"{evidence.gid}:",))
    if not any(line.startswith("I1:") for line in broken):
        return [line for line in broken if not (found and line.startswith("I8:"))]
    wrong = []
    if not any(damage and outcome and decided for _, outcome, decided, damage in found):
        wrong.append(f"M23: the sites differ, and what is recorded is {found}")
    answer = evidence.answer
    if answer is not None and answer.outcome != "in_doubt":
        wrong.append(f"M23: the sites differ, and the application was told {answer}")
    # The decision is kept as evidence; the changed outcome is the operator's.
    return wrong + [line for line in broken if line[:2] not in ("I1", "I3", "I4", "I5", "I8")]


TWICE = Fault(name="requests come twice", row="M12", strike=_twice)
TAKEN = tuple(
    _taken(site, database, where)
    for site in SITES
    for database, where in (("postgres", "another database"), ("", "the same database"))
)
BY_HAND = tuple(
    Fault(
        name=f"{word} by hand at {site}{' and the coordinator' if kills else ''}",
        row="M23",
        strike=partial(_by_hand_and_killed if kills else _by_hand, site, command),
        kills_coordinator=kills,
        judge=told,
    )
    for site in SITES
    for word, command in (
        ("COMMIT PREPARED", COMMIT_PREPARED),
        ("ROLLBACK PREPARED", ROLLBACK_PREPARED),
    )
    for kills in (False, True)
)
HANDS = (TWICE, *TAKEN, *BY_HAND)
