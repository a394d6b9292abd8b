"""Random schedules, built on the model, which shows the waits, so that no session waits for ever.

Two sessions that are woken at the same moment race on a server; so several wait at a time only with statements that
lock one row and nothing else. A session that waits gets no further step until the wait has ended. The exception is a
cycle of waits: the next step is then for a session of the cycle, so that the deadlock check comes before anything else.
"""

from __future__ import annotations

import random

from tests.model.node.differ import ModelRun, Played, Schedule
from twopc.sim.model.node.locks import in_cycle

SETUP = """
create table t (id int primary key, u int unique, v int not null check (v < 1000));
create table c (id int primary key, t int references t, w int not null);
insert into t values (1, 10, 1), (2, 20, 2), (3, 30, 3);
insert into c values (1, 1, 1), (2, 2, 2);
"""
SESSIONS = ("a", "b", "d")
_LEVELS = ("", " isolation level repeatable read", " isolation level repeatable read")


class Drawer:
    """Draws one schedule."""

    def __init__(self, seed: int, length: int = 16) -> None:
        self._chance = random.Random(seed)
        self._length = length
        self._steps: list[tuple[str, str]] = []
        self._savepoint: set[str] = set()
        self._prepared: list[str] = []
        self._text: dict[str, str] = {}
        """The current or last statement of each session."""
        self._simple: set[str] = set()
        """Statements that lock one row and nothing else."""
        self.schedule = Schedule(
            name=f"drawn/{seed}", setup=SETUP, steps=tuple((one, "") for one in SESSIONS)
        )
        self._run = ModelRun(self.schedule, Played())

    def drawn(self) -> Schedule:
        """Return the schedule, at whose end no session has a transaction and nothing is prepared."""
        while len(self._steps) < self._length:
            self._one()
        for _ in range(3 * len(SESSIONS)):
            self._ring()
            for session in SESSIONS:
                if session not in self._run.busy and self._run.sessions[session].tx is not None:
                    self._step(session, self._chance.choice(("commit", "rollback")))
            for gid in list(self._prepared):
                self._finish_branch(gid)
        return Schedule(name=self.schedule.name, setup=SETUP, steps=tuple(self._steps))

    # -- one step ------------------------------------------------------------------------------------

    def _one(self) -> None:
        if self._ring():
            return
        free = [one for one in SESSIONS if one not in self._run.busy]
        if not free:  # all sessions wait for prepared transactions
            self._finish_branch(self._prepared[0])
            return
        session = self._chance.choice(free)
        connection = self._run.sessions[session]
        if connection.tx is None:
            if self._prepared and self._chance.randrange(3) == 0:
                self._finish_branch(self._prepared[0])
            elif self._chance.randrange(4):
                self._savepoint.discard(session)
                self._step(session, f"begin{self._chance.choice(_LEVELS)}")
            else:
                self._step(session, self._statement())
        elif connection.failed_tx:
            self._step(session, "rollback to s" if session in self._savepoint else "rollback")
        else:
            self._step(session, self._within(session))

    def _within(self, session: str) -> str:
        drawn = self._chance.randrange(20)
        if drawn < 2:
            return self._chance.choice(("commit", "commit", "rollback"))
        if drawn == 2:
            gid = f"g{len(self._steps)}"
            self._prepared.append(gid)
            return f"prepare transaction '{gid}'"
        if drawn == 3:
            self._savepoint.add(session)
            return "savepoint s"
        if drawn == 4 and session in self._savepoint:
            return "rollback to s"
        return self._statement()

    def _statement(self) -> str:
        chance = self._chance
        key, other, value = chance.randrange(1, 5), chance.randrange(1, 5), chance.randrange(1, 9)
        of_one_row = (
            f"update t set v = v + {value} where id = {key} returning *",
            f"update t set v = v + {value} where id = {key} returning *",
            f"select * from t where id = {key} for update",
            f"select * from t where id = {key} for no key update",
            f"select * from t where id = {key} for share",
            f"select * from t where id = {key} for key share",
        )
        passive = (
            "select id from t order by id for update skip locked",
            f"select * from t where u = {10 * other} for update nowait",
            "select * from t order by id",
            "select count(*), sum(w) from c",
        )
        if self._run.busy:
            simple = all(self._text[session] in self._simple for session in self._run.busy)
            text = chance.choice(of_one_row if simple else passive)
        else:
            text = chance.choice(
                (
                    *of_one_row,
                    *passive,
                    f"update t set v = v * 2 where v < {value} returning id, v",
                    f"update t set u = {10 * other} where id = {key}",
                    f"update t set id = {other} where id = {key}",
                    f"delete from t where id = {key} returning *",
                    f"insert into t values ({key}, {10 * other}, {value})",
                    f"insert into t values ({key}, null, {value}) on conflict (id) "
                    "do update set v = t.v + excluded.v returning *",
                    f"insert into t values ({key}, {10 * other}, {value}) on conflict do nothing",
                    f"insert into c values ({value}, {key}, {value})",
                    f"update c set t = {key} where id = {other}",
                    f"delete from c where t = {key}",
                )
            )
        if text in of_one_row:
            self._simple.add(text)
        return text

    # -- steering ------------------------------------------------------------------------------------

    def _ring(self) -> bool:
        for session in SESSIONS:
            wait = self._run.sessions[session].wait
            if wait is not None and in_cycle(wait):
                self._step(session, "select 1")
                return True
        return False

    def _finish_branch(self, gid: str) -> None:
        free = [
            one
            for one in SESSIONS
            if one not in self._run.busy and self._run.sessions[one].tx is None
        ]
        if gid not in self._run.world.node.prepared():
            self._prepared.remove(gid)
        elif free:
            self._prepared.remove(gid)
            self._step(free[0], f"{self._chance.choice(('commit', 'rollback'))} prepared '{gid}'")
        elif len(self._run.busy) < len(SESSIONS):
            open_ = next(one for one in SESSIONS if one not in self._run.busy)
            self._step(open_, "rollback")
        else:
            self._step("e", f"commit prepared '{gid}'")
            self._prepared.remove(gid)

    def _step(self, session: str, text: str) -> None:
        self._steps.append((session, text))
        self._text[session] = text
        self._run.step(len(self._steps), session, text)
