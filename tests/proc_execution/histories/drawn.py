"""Random histories of transactions at a Publisher: calls of routines among writers, by number.

``python -m tests.proc_execution.histories.drawn --on model --histories 10000 [--first 0] [--off snapshot_rule]``
plays them, and reports where a Subscriber that executes the calls differs from the Publisher.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

#: Number of histories played before the Subscriber is synchronised and compared.
ROUND = 20
TABLES = ("item", "total")
DEFINITIONS = (
    "create table item (id int primary key, v int not null)",
    "create table total (id int primary key, v int not null)",
)
ROWS = {"item": [(id_, 10 * id_) for id_ in range(1, 6)], "total": [(1, 0)]}
#: One routine reads the greatest key, one computes a sum, one deletes by value.
ROUTINES = {
    "mark_greatest": (
        "create procedure mark_greatest() language sql as $$ "
        "update item set v = v + 100 where id = (select max(id) from item) $$",
        ("item",),
        ("item",),
    ),
    "add_up": (
        "create procedure add_up() language sql as $$ "
        "update total set v = (select coalesce(sum(v), 0) from item) where id = 1 $$",
        ("item", "total"),
        ("total",),
    ),
    "purge": (
        "create procedure purge(above int) language sql as $$ delete from item where v > above $$",
        ("item",),
        ("item",),
    ),
}
_CALLS = ("call mark_greatest()", "call add_up()", "call purge(150)", "call purge(220)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The next statement of a session."""

    session: int
    text: str


@dataclass(slots=True, kw_only=True)
class _Session:
    level: str
    open: bool = False
    savepoint: bool = False
    prepared: str = ""
    left: int = 0


def history(number: int) -> list[Step]:
    """Return the steps of a history: two to four sessions, six to twelve steps, then all ends."""
    draw = random.Random(number)
    levels = ("serializable", "serializable", "read committed")
    sessions = [_Session(level=draw.choice(levels)) for _ in range(draw.randint(2, 4))]
    steps: list[Step] = []

    def do(at: int, text: str) -> None:
        steps.append(Step(session=at, text=text))

    for place in range(draw.randint(6, 12)):
        at = draw.randrange(len(sessions))
        one = sessions[at]
        if one.prepared:
            do(at, f"commit prepared '{one.prepared}'")
            one.prepared = ""
        elif not one.open:
            do(at, f"begin isolation level {one.level}")
            do(at, "select count(*) from item")
            one.open, one.savepoint = True, False
        else:
            _act(draw, one, lambda text, at=at: do(at, text), f"h{number}_{place}")  # type: ignore[misc] # a default
    for at, one in enumerate(sessions):
        if one.prepared:
            do(at, f"commit prepared '{one.prepared}'")
        elif one.open:
            do(at, "commit")
    return steps


def _act(draw: random.Random, one: _Session, do: Callable[[str], None], gid: str) -> None:
    kind = draw.choices(
        ("call", "write", "commit", "savepoint", "back", "rollback", "prepare"),
        (6, 5, 5, 1, 1, 1, 1),
    )[0]
    if kind == "call":
        do(draw.choice(_CALLS))
    elif kind == "write":
        do(_write(draw))
    elif kind == "savepoint":
        do("savepoint a")
        one.savepoint = True
    elif kind == "back" and one.savepoint:
        do("rollback to savepoint a")
    elif kind == "prepare":
        do(f"prepare transaction '{gid}'")
        one.open, one.prepared = False, gid
    elif kind in ("commit", "rollback"):
        do(kind)
        one.open = False


def _write(draw: random.Random) -> str:
    id_, value = draw.randint(1, 9), draw.randint(1, 200)
    return draw.choice(
        (
            f"insert into item values ({id_}, {value})",
            f"insert into item select coalesce(max(id), 0) + 1, {value} from item",
            f"update item set v = {value} where id = {id_}",
            f"delete from item where id = {id_}",
            f"update total set v = v + {value} where id = 1",
        )
    )


#: Executes a statement of a session; returns the SQLSTATE of its error, or an empty string.
Execute = Callable[[int, str], str]


@dataclass(slots=True)
class Play:
    """Plays histories statement by statement; one that would wait for a lock fails instead."""

    execute: Execute
    failed: set[int] = field(default_factory=set)
    """Sessions whose transaction has failed."""
    gone: set[str] = field(default_factory=set)
    """Gids of branches that were never prepared."""

    def play(self, number: int) -> None:
        """Play one history to its end."""
        for step in history(number):
            self._step(step)

    def _step(self, step: Step) -> None:
        verb, at = step.text, step.session
        if verb.startswith("commit prepared"):
            if verb.split("'")[1] not in self.gone:
                while self.execute(at, verb):
                    pass
            return
        if at in self.failed:
            if verb.startswith("prepare"):
                self.gone.add(verb.split("'")[1])
            if verb.startswith(("commit", "rollback", "prepare")) and " to " not in verb:
                self.execute(at, "rollback")
                self.failed.discard(at)
            return
        if self.execute(at, verb):
            if verb.startswith("prepare"):
                self.gone.add(verb.split("'")[1])
                self.execute(at, "rollback")
            elif verb == "commit":
                self.execute(at, "rollback")
            else:
                self.failed.add(at)


@dataclass(slots=True, kw_only=True)
class Seen:
    """The result of some histories."""

    histories: int = 0
    calls: int = 0
    """Number of calls that were sent as calls."""
    called: int = 0
    """Number of CALLs that succeeded, whether they were committed or not."""
    different: str = ""
    """The first difference: histories, table, both contents."""


def rounds(first: int, count: int) -> Iterator[range]:
    """Yield ranges of numbers, one per round."""
    for start in range(first, first + count, ROUND):
        yield range(start, min(start + ROUND, first + count))


def main() -> int:
    """Play histories and print the result; return 1 if the sites differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.proc_execution.histories.drawn")
    parser.add_argument("--on", choices=("model", "postgres"), default="model")
    parser.add_argument("--histories", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--off", action="append", default=[], help="a protection that is off")
    given = parser.parse_args()
    if given.on == "model":
        from tests.proc_execution.histories.on_model import played

        seen = played(given.first, given.histories, frozenset(given.off))
    else:
        from tests.proc_execution.histories.on_postgres import played_alone

        seen = asyncio.run(played_alone(given.first, given.histories, frozenset(given.off)))
    sys.stdout.write(
        f"{seen.histories} histories on {given.on}: {seen.called} calls made, {seen.calls} travelled as calls\n"
        + (f"{seen.different}\n" if seen.different else "the sites are equal\n")
    )
    return int(bool(seen.different))


if __name__ == "__main__":
    sys.exit(main())
