"""M12, M13, M23: somebody else names our branches: a request that comes twice, a gid that is taken, a
person who finishes a branch by hand.

What they do is SQL of a superuser's over a connection of its own.
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
    """Commands about a gid, one by one, on one connection of a superuser's."""
    dsn = rig.servers[site].superuser_dsn(database or rig.node(site).database)
    with psycopg.connect(dsn, autocommit=True) as connection:
        for command in commands:
            connection.execute(sql.SQL(command).format(sql.Literal(gid)))


def _is_prepared(rig: Rig, site: str, gid: str) -> bool:
    return bool(rig.fetch(site, _TAKEN, (gid,)))


# -- M12 -------------------------------------------------------------------------------------------


def _twice(rig: Rig, process: CoordinatorProcess) -> bool:
    """What the coordinator has asked for, or is about to, is asked for on another connection too.

    Before the decision that is PREPARE of what is prepared already, afterwards COMMIT PREPARED.
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
    """Somebody has prepared something under the gid of our branch before we do."""

    def __init__(self, site: str, database: str) -> None:
        self._site = site
        self._database = database
        self._held: list[tuple[object, ...]] = []

    def strike(self, rig: Rig, process: CoordinatorProcess) -> bool:
        """Take it, if it is still free."""
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
        """It is untouched; let it go."""
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
    """The sites may differ, but never in silence: both states are recorded, and the application knows.

    Where they do not differ the invariants hold; only that nobody had decided what was committed by hand
    is as it is, and recorded too.
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
    # The decision stays as evidence, and what flipped was flipped by hand.
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
