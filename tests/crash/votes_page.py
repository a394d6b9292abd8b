"""The page about votes; ``python -m tests.crash.votes_page`` regenerates it.

Every case is played twice: with this project's coordinator, and with psycopg's ``tpc_*`` methods.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import conninfo, sql

from tests.crash.vote_cases import CASES, DISABLED, Case
from tests.crash.voting import PLAIN, Ours, Theirs, Verdict
from tests.grid.rig import (
    AT_PUBLISHER,
    AT_SUBSCRIBER,
    GATED,
    ONLY_THERE,
    PUBLISHER,
    SITES,
    SUBSCRIBER,
    Rig,
)
from twopc.drivers import PostgresCoordinator

PAGE = Path(__file__).parents[2] / "docs" / "votes.md"
#: Few enough to take all of them.
SLOTS = 8
_COMMITS = "create procedure commits() language plpgsql as $$ begin commit; end $$"
ALL = {name: case for group in CASES.values() for name, case in group.items()}


class Stage:
    """The databases of both players on one pair of servers."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        for site in SITES:
            rig.servers[site].create_database(PLAIN)
            # A Subscriber's copy has the Publisher's columns and keys, not its triggers.
            only = (*GATED, ONLY_THERE) if site == PUBLISHER else (GATED[0], *AT_SUBSCRIBER)
            self._run(rig.servers[site].superuser_dsn(PLAIN), *AT_PUBLISHER, *only)
        for dsn in (rig.node(SUBSCRIBER).dsn, rig.servers[SUBSCRIBER].superuser_dsn(PLAIN)):
            self._run(dsn, _COMMITS, *self._far())

    def _run(self, dsn: str, *statements: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as admin:
            for statement in statements:
                admin.execute(statement.encode())

    def _far(self) -> Iterator[str]:
        """Yield statements that create the accounts of `PLAIN` as a table of postgres_fdw."""
        there = conninfo.conninfo_to_dict(self.rig.servers[PUBLISHER].superuser_dsn(PLAIN))
        place = [sql.Literal(there[key]) for key in ("host", "port", "dbname")]
        who = [sql.Literal(there[key]) for key in ("user", "password")]
        for text in (
            sql.SQL("create extension postgres_fdw"),
            sql.SQL(
                "create server far foreign data wrapper postgres_fdw"
                " options (host {}, port {}, dbname {})"
            ).format(*place),
            sql.SQL(
                "create user mapping for public server far options (user {}, password {})"
            ).format(*who),
            sql.SQL(
                "create foreign table far_account (id int, balance int) server far"
                " options (table_name 'account')"
            ),
            sql.SQL("grant select on far_account to public"),
        ):
            yield text.as_string(None)

    @asynccontextmanager
    async def coordinator(self, trace: list[tuple[str, Any]]) -> AsyncIterator[PostgresCoordinator]:
        """Open a coordinator that recovers only when asked to."""
        task = self.rig.task(self.rig.fresh_name())
        made = PostgresCoordinator(
            task.coordinator,
            distribution=task.distribution,
            publisher=task.publisher,
            subscribers={SUBSCRIBER: task.subscriber},
            recovery_interval_s=3600.0,
            in_doubt_after_s=5.0,
            observe=lambda gid, what: trace.append((gid, what)),
        )
        async with made:
            yield made

    async def ours(self, name: str) -> Verdict:
        """Play a case with the coordinator, then a plain transaction, which must commit."""
        case, trace = ALL[name], list[tuple[str, Any]]()
        async with self.coordinator(trace) as coordinator, AsyncExitStack() as after:
            player = Ours(self.rig, after)
            async with self._disabled(name):
                verdict = await player.play(
                    coordinator, case.do, trace, changes=case.changes, **case.options
                )
            following = Ours(self.rig, after)
            then = await following.play(coordinator, _nothing, trace)
            assert (then.told, then.ends) == ("committed", "both changed"), then
        return verdict

    async def theirs(self, name: str) -> Verdict:
        """Play a case with psycopg's methods."""
        case = ALL[name]
        async with AsyncExitStack() as after:
            player = Theirs(self.rig, after)
            async with self._disabled(name):
                return await player.play(
                    case.do, changes=case.changes, isolation=case.options.get("isolation", "")
                )

    @asynccontextmanager
    async def _disabled(self, name: str) -> AsyncIterator[None]:
        """Disable prepared transactions at a server, for the cases that need it."""
        site = DISABLED.get(name)
        if site is None:
            yield
            return
        dsn = self.rig.servers[site].superuser_dsn("postgres")
        self._run(dsn, "alter system set max_prepared_transactions = 0")
        await asyncio.to_thread(self.rig.servers[site].restart)
        yield
        self._run(dsn, "alter system reset max_prepared_transactions")
        await asyncio.to_thread(self.rig.servers[site].restart)


async def _nothing(player: object) -> None:
    """Do nothing besides the change."""


@contextmanager
def stage() -> Iterator[Stage]:
    """Start servers with few slots and no other prepared transactions, for both players."""
    settings = {"max_prepared_transactions": str(SLOTS)}
    with Rig(settings=settings, planted=False) as rig:
        yield Stage(rig)


# -- the page --------------------------------------------------------------------------------------

_HEAD = """# Votes

Two-phase commit depends on one answer: a participant that votes yes *can* commit, whatever happens next.
On PostgreSQL a vote is a command tag. `PREPARE TRANSACTION` of a failed transaction **succeeds**, prepares
nothing, and answers `ROLLBACK`; only the tag `PREPARE TRANSACTION` is a yes.

Each case below changes a row at the Publisher and at the Subscriber, does what the first column says, and
commits. "twopc" is this project's coordinator (presumed abort). "psycopg" is the usual loop with the
`tpc_*` methods of psycopg {version}: `tpc_begin`, statements, `tpc_prepare` and `tpc_commit` at
the Publisher and then at the Subscriber, `tpc_rollback` at both on any exception. Both ran on
PostgreSQL 18. `python -m tests.crash.votes_page` writes this page, and a test repeats all of it.

Votes are those of Publisher / Subscriber. *Unknown* is counted as a no, and the branch is fenced, so that
it cannot become a yes later. Every outcome in these cases is definite: rolled back at all sites, or committed
at all sites. *Split* means that the transaction took effect at one site only; *left prepared* that a branch
keeps its locks until it is finished by hand; *wedged* that the connection is alive but refuses `rollback()`
and `commit()`, also after it is returned to a pool.
"""


def page(theirs: dict[str, Verdict]) -> str:
    """Return the page's text; the coordinator's results are those that `CASES` expects."""
    parts = [_HEAD.format(version=psycopg.__version__)]
    for group, cases in CASES.items():
        parts.append(f"\n## {group[0].upper()}{group[1:]}\n")
        parts.append("| case | twopc: votes | outcome | psycopg: votes | outcome | afterwards |")
        parts.append("|---|---|---|---|---|---|")
        for name, case in cases.items():
            verdict = theirs[name]
            after = verdict.ends + ("; connection wedged" if verdict.wedged else "")
            cells = (
                name,
                _votes(*case.votes),
                _told(case.told, case.sqlstate),
                _votes(verdict.publisher, verdict.subscriber),
                _told(verdict.told, verdict.sqlstate),
                after,
            )
            parts.append(f"| {' | '.join(cells)} |")
    failed = sum("**" in verdict.ends for verdict in theirs.values())
    wedged = sum(verdict.wedged for verdict in theirs.values())
    parts.append(
        f"\nOf {len(theirs)} cases psycopg's methods end {failed} split or with a branch left prepared, and"
        f" wedge a connection in {wedged}. With twopc both sites are equal in all of them, and nothing is left."
    )
    return "\n".join(parts) + "\n"


def _votes(publisher: str, subscriber: str) -> str:
    return publisher if publisher == subscriber else f"{publisher} / {subscriber}"


def _told(told: str, sqlstate: str) -> str:
    if told == "committed":
        return told
    return f"`{told}`" + (f" {sqlstate}" if sqlstate else "")


def expected(case: Case) -> Verdict:
    """Return the verdict that a case expects of the coordinator."""
    changed = case.told == "committed" and case.changes
    return Verdict(
        publisher=case.votes[0],
        subscriber=case.votes[1],
        told=case.told,
        sqlstate=case.sqlstate,
        ends="both changed" if changed else "both unchanged",
    )


async def play_theirs(on: Stage) -> dict[str, Verdict]:
    """Play every case with psycopg's methods."""
    return {name: await on.theirs(name) for name in ALL}


if __name__ == "__main__":
    with stage() as on:
        PAGE.write_text(page(asyncio.run(play_theirs(on))), encoding="utf-8")
