"""Play the same schedule on a model node and on a real server, and describe both in comparable lines.

A schedule is a list of steps ``(session, statement)``. Steps are launched as PostgreSQL's isolationtester does: the
next one once this one has ended or is seen to wait for a lock; a step of a session that still waits only when that wait
has ended. After each step, the lines state which session waits for which, and which steps have ended since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from tests.model.node.playing import World, world
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.sql.types import as_text
from twopc.sim.model.values import (
    Delay,
    ModelTiming,
    SqlError,
    StatementResult,
    Steps,
    UnsupportedError,
)

#: How long a session waits for a lock before it checks for a deadlock, on both.
DEADLOCK_S = 1.0
#: How long a step may wait.
PATIENCE_S = 20.0
#: The role of sessions whose names begin with its name: it may change rows, but defines nothing.
APP = "app"
_MAY_CHANGE_ROWS = f"""
do $$ begin create role {APP}; exception when duplicate_object then null; end $$;
grant usage on schema public to {APP};
grant select, insert, update, delete on all tables in schema public to {APP}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Steps of several sessions in one order."""

    name: str
    setup: str
    steps: tuple[tuple[str, str], ...]

    @property
    def sessions(self) -> tuple[str, ...]:
        """The sessions, in the order of their first steps."""
        return tuple(dict.fromkeys(session for session, _ in self.steps))


@dataclass(slots=True)
class Played:
    """The results of a schedule, as comparable lines."""

    lines: list[str] = field(default_factory=list)
    tables: dict[str, list[str]] = field(default_factory=dict)
    prepared: list[str] = field(default_factory=list)


def read(path: Path) -> list[Schedule]:
    """Return the schedules of a file.

    The text before the first ``== name`` is the setup of every schedule. Lines are ``session: statement``; those that
    begin with ``+`` are setup of this schedule only; an indented line continues the one before. A session whose name
    begins with ``app`` has the application's role.
    """
    common, *parts = path.read_text(encoding="utf-8").split("\n== ")
    found = []
    for part in parts:
        name, *lines = part.split("\n")
        setup = [line for line in common.split("\n") if not line.startswith("#")]
        steps: list[list[str]] = []
        for line in lines:
            if line.startswith("+"):
                setup.append(line[1:])
            elif line.startswith(" "):
                steps[-1][1] += "\n" + line.strip()
            elif line.strip() and not line.startswith("#"):
                session, _, text = line.partition(":")
                steps.append([session.strip(), text.strip()])
        found.append(
            Schedule(
                name=f"{path.stem}/{name.strip()}",
                setup="\n".join(setup).strip(),
                steps=tuple((session, text) for session, text in steps),
            )
        )
    return found


#: How often a schedule is repeated on PostgreSQL: on a busy machine, the rarer order is likely for a while.
_AGAIN_MAX = 15


def play_both(schedule: Schedule, dsn: str) -> tuple[Played, Played]:
    """Play a schedule on the model and on PostgreSQL.

    After an update that commits, PostgreSQL lets the sessions that wait for the row race for its new version: nearly
    always the first waiter wins, and sometimes another. The model's result must be one of PostgreSQL's possible
    results: if they differ, the schedule is repeated on PostgreSQL, at most `_AGAIN_MAX` times.
    """
    model = play_model(schedule)
    postgres = play_postgres(schedule, dsn)
    for _ in range(_AGAIN_MAX):
        if postgres == model:
            break
        postgres = play_postgres(schedule, dsn)
    return model, postgres


def _outcome(tag: str, text: str, rows: Iterable[Sequence[Any]] | None) -> str:
    if rows is None:
        return tag
    shown = [
        "(" + ", ".join("null" if value is None else as_text(_plain(value)) for value in row) + ")"
        for row in rows
    ]
    if "order by" not in text.lower():
        shown.sort()
    return f"{tag} {' '.join(shown)}"


def _refusal(sqlstate: str, detail: str) -> str:
    """Return the SQLSTATE, with the detail of a duplicate key; other details differ between the two."""
    return f"{sqlstate} {detail}" if sqlstate == "23505" else sqlstate


def _role(session: str) -> str:
    return APP if session.startswith(APP) else "postgres"


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


# -- the model -----------------------------------------------------------------------------------------


class ModelRun:
    """A schedule played on a model node, step by step."""

    def __init__(self, schedule: Schedule, played: Played) -> None:
        self.schedule = schedule
        self.played = played
        timing = ModelTiming(deadlock_timeout=Delay(a=DEADLOCK_S))
        self.world: World = world(schedule.setup, timing=timing)
        self.sessions: dict[str, NodeSession] = {
            name: self.world.node.connect(_role(name), name) for name in schedule.sessions
        }
        self.busy: dict[str, str] = {}
        self.ended: dict[str, str] = {}

    def run(self) -> None:
        """Play all steps, and record the tables and prepared transactions that remain."""
        for number, (session, text) in enumerate(self.schedule.steps, 1):
            self.step(number, session, text)
        while self.busy:
            self._await(next(iter(self.busy)))
        node = self.world.node
        for name, table in sorted(node.tables.items()):
            if not name.startswith("msrepl."):
                rows = table.committed()
                self.played.tables[name] = sorted(_outcome("", "", [row]) for row in rows)
        self.played.prepared = sorted(node.prepared())

    def step(self, number: int, session: str, text: str) -> None:
        """Launch a step and record its result or its wait."""
        if session not in self.sessions:
            self.sessions[session] = self.world.node.connect(_role(session), session)
        if session in self.busy:
            self._await(session)
        step = f"{number} {session}"
        self.busy[session] = step
        self.world.kernel.spawn(self._step(session, step, text), session)
        self.world.run(0.01)
        self._tell(step)

    def _step(self, session: str, step: str, text: str) -> Steps[None]:
        try:
            result: StatementResult = yield from self.sessions[session].execute(text)
            told = _outcome(result.tag, text, result.rows)
        except SqlError as error:
            told = _refusal(error.sqlstate, error.detail)
        except UnsupportedError as error:
            told = str(error)
        del self.busy[session]
        self.ended[step] = told

    def _await(self, session: str) -> None:
        step = self.busy[session]
        until = self.world.kernel.now + PATIENCE_S
        while self.busy.get(session) == step and self.world.kernel.now < until:
            self.world.run(0.01)
        if self.busy.get(session) == step:
            self.sessions[session].cancel()
            self.world.run(0.01)
            self.played.lines.append(f"{step} waits for ever")
        self._tell("")

    def _tell(self, step: str) -> None:
        names = {one.pid: name for name, one in self.sessions.items()}
        waits: dict[str, set[str]] = {}
        for wait in self.world.node.waits():
            waits.setdefault(names[wait.pid], set()).add(names.get(wait.holder_pid, "prepared"))
        _note(self.played, self.ended, self.busy, waits, step)


def play_model(schedule: Schedule) -> Played:
    """Play a schedule on a model node."""
    played = Played()
    ModelRun(schedule, played).run()
    return played


def _note(
    played: Played,
    ended: dict[str, str],
    busy: dict[str, str],
    waits: dict[str, set[str]],
    step: str,
) -> None:
    if step in ended:
        played.lines.append(f"{step}: {ended.pop(step)}")
    else:
        played.lines += [
            f"{waiting} waits for {', '.join(sorted(waits.get(session, ())))}"
            for session, waiting in busy.items()
            if waiting == step
        ]
    played.lines += [f"  then {other}: {ended.pop(other)}" for other in sorted(ended)]
    played.lines += [
        f"  still {waiting} waits for {', '.join(sorted(waits.get(session, ())))}"
        for session, waiting in sorted(busy.items())
        if waiting != step
    ]


# -- PostgreSQL ----------------------------------------------------------------------------------------


class _PostgresRun:
    def __init__(self, schedule: Schedule, played: Played, dsn: str) -> None:
        self.schedule = schedule
        self.played = played
        self.dsn = dsn
        self.sessions: dict[str, psycopg.AsyncConnection[Any]] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.busy: dict[str, str] = {}
        self.ended: dict[str, str] = {}

    async def run(self) -> None:
        self.control = await psycopg.AsyncConnection.connect(self.dsn, autocommit=True)
        try:
            await _clean(self.control)
            await self.control.execute(self.schedule.setup.encode())
            if any(_role(name) == APP for name in self.schedule.sessions):
                await self.control.execute(_MAY_CHANGE_ROWS.encode())
            for name in self.schedule.sessions:
                one = await psycopg.AsyncConnection.connect(self.dsn, autocommit=True)
                one.prepare_threshold = None
                await one.execute(f"set deadlock_timeout = '{round(DEADLOCK_S * 1000)}ms'".encode())
                if _role(name) == APP:
                    await one.execute(f"set session authorization {APP}".encode())
                self.sessions[name] = one
            await self._play()
        finally:
            for task in self.tasks.values():
                task.cancel()
            for one in self.sessions.values():
                await one.close()
            await _clean(self.control)
            await self.control.close()

    async def _play(self) -> None:
        for number, (session, text) in enumerate(self.schedule.steps, 1):
            if session in self.busy:
                await self._await(session)
            step = f"{number} {session}"
            self.busy[session] = step
            self.tasks[session] = asyncio.create_task(self._step(session, step, text))
            await self._tell(step)
        while self.busy:
            await self._await(next(iter(self.busy)))
        names = await self.control.execute(
            "select c.relname from pg_class c where c.relnamespace = 'public'::regnamespace "
            "and c.relkind = 'r' order by 1"
        )
        for (name,) in await names.fetchall():
            rows = await (await self.control.execute(f'select * from "{name}"'.encode())).fetchall()
            self.played.tables[name] = sorted(_outcome("", "", [row]) for row in rows)
        self.played.prepared = await _prepared(self.control)

    async def _step(self, session: str, step: str, text: str) -> None:
        try:
            cursor = await self.sessions[session].execute(text.encode())
            rows = await cursor.fetchall() if cursor.description is not None else None
            told = _outcome(str(cursor.statusmessage or ""), text, rows)
        except psycopg.Error as error:
            told = _refusal(str(error.sqlstate), str(error.diag.message_detail))
        del self.busy[session]
        self.ended[step] = told

    async def _waits(self) -> dict[str, set[str]]:
        names = {one.info.backend_pid: name for name, one in self.sessions.items()}
        cursor = await self.control.execute(
            "select pid, pg_blocking_pids(pid) from unnest(%s::int[]) as p (pid)", (list(names),)
        )
        return {
            names[pid]: {names.get(holder, "prepared") for holder in holders}
            for pid, holders in await cursor.fetchall()
            if holders
        }

    async def _settled(self) -> dict[str, set[str]]:
        """Wait until every step has ended or waits, with the same result of two successive queries."""
        before: tuple[Any, Any] | None = None
        while True:
            if self.busy:
                await asyncio.wait([self.tasks[name] for name in self.busy], timeout=0.01)
            waits = await self._waits()
            seen = ({k: sorted(v) for k, v in waits.items()}, dict(self.busy))
            if set(self.busy) <= set(waits) and (seen == before or not self.busy):
                return waits
            before = seen

    async def _await(self, session: str) -> None:
        step = self.busy[session]
        done, _ = await asyncio.wait([self.tasks[session]], timeout=PATIENCE_S)
        if not done:
            self.sessions[session].cancel()
            await asyncio.wait([self.tasks[session]])
            self.played.lines.append(f"{step} waits for ever")
        await self._tell("")

    async def _tell(self, step: str) -> None:
        waits = await self._settled()
        _note(self.played, self.ended, self.busy, waits, step)


async def _prepared(control: psycopg.AsyncConnection[Any]) -> list[str]:
    cursor = await control.execute(
        "select gid from pg_prepared_xacts where database = current_database() order by 1"
    )
    return [gid for (gid,) in await cursor.fetchall()]


async def _clean(control: psycopg.AsyncConnection[Any]) -> None:
    for gid in await _prepared(control):
        await control.execute(f"rollback prepared '{gid}'".encode())
    await control.execute("drop schema public cascade; create schema public")


def play_postgres(schedule: Schedule, dsn: str) -> Played:
    """Play a schedule on a real server, in a database that is emptied before and after."""
    played = Played()
    asyncio.run(_PostgresRun(schedule, played, dsn).run())
    return played
