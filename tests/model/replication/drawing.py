"""Random histories, drawn from seeds; as a command, plays many of them on the model and on servers.

``python -m tests.model.replication.drawing FIRST LAST``.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable

from tests.model.replication.on_model import ModelRun
from tests.model.replication.on_postgres import World
from tests.model.replication.telling import Played
from tests.model.replication.world import History
from twopc.server import EmbeddedServer

#: Statements with placeholders: {k} and {j} keys, {n} a small number, {s} a name.
STATEMENTS = (
    "update account set balance = balance + {n} where id = {k}",
    "update account set balance = balance - 1, note = '{s}' where id <= {k}",
    "update account set owner = '{s}' where id = {k}",
    "update account set mail = '{s}@x' where id in ({k}, {j})",
    "update account set id = {n} + 3 where id = {k}",
    "insert into account (id, owner, mail) values ({k} + 1, '{s}', '{s}@x')",
    "insert into account (id, owner) values ({n} + 4, '{s}{n}')",
    "delete from account where id = {k}",
    "delete from account where id in ({k}, {j})",
    "insert into entry (account, amount) values ({k}, {n}) returning id",
    "insert into entry (account, amount) values ({k}, 1), ({j}, 2) returning id",
    "insert into entry (id, account, amount) values (200 + {n}, {k}, {n})",
    "update entry set account = {j} where account = {k}",
    "update entry set amount = amount + {n}",
    "delete from entry where account = {k}",
    "update plain set v = v + {n} where id = {k}",
    "update plain set v = v + 1 where id <= {k}",
    "update plain set v = {n}, ok = true where id = {j}",
    "update plain set id = {n} + 5 where id = {k}",
    "insert into plain (id, v) values ({n} + 5, {k})",
    "insert into plain (id, v) values ({k}, {n}), ({n} + 5, 1) on conflict (id) do update set v = excluded.v",
    "delete from plain where id = {k}",
    "delete from plain where v > {n} * 10",
    "select v from plain where id = {k}",
    "insert into person (id, boss, name) values ({n} + 3, {k}, '{s}')",
    "update person set boss = {j} where id = {k}",
    "update person set id = {n} + 3 where id = {k}",
    "delete from person where id = {k}",
    "update seat set place = 3 - place",
    "update seat set place = {n} where id = {k}",
    "update seat set person = {j} where id = {k}",
    "insert into seat (id, place, person) values ({n} + 2, {n} + 2, {k})",
    "delete from seat where id = {k}",
    "insert into item (id, name, price) values ({n} + 2, '{s}X', {n})",
    "update item set name = 'Self' where id = {k}",
    "update item set name = 'ALL' where id = {k}",
    "update item set price = price - {n} * 3 where id <= {k}",
    "delete from item where id = {k}",
    "update line set price = price + 1 where trade = {k}",
    "update line set n = n + 3 where trade = {k}",
    "delete from line where trade = {k} and n <= {n}",
    "insert into line (trade, n, what) values ({k}, {n}, '{s}')",
    "update shop set stock = stock - {n} where id = {k}",
    "insert into shop (id, region, stock) values ({n} + 2, 'north', 1)",
    "update shop set region = 'south' where id = {k}",
    "update zone set v = v + {n} where id = {k}",
    "insert into zone (id, area, v) values ({n} + 2, 'one', 1)",
    "insert into zone (id, area, v) values ({n} + 2, 'two', 1)",
    "insert into watched (id, v) values ({n} + 2, {k}), ({n} + 20, 5)",
    "update watched set v = v + {n} * 40 where id <= {k}",
    "insert into made (a) values ({n}), ({k}) returning id, twice",
    "update made set a = a + 1 returning twice",
)
NAMES = ("ann", "dan", "eve", "fay")
#: Parts of lines of histories that take seconds, or whose result depends on a race.
_SLOW = ("lock_timeout", "deadlock", "DeadlockError", "LockTimeoutError", "waits for nobody")


def drawn(seed: int) -> History:
    """Return the history of a seed."""
    chance = random.Random(seed)
    queues = {
        name: _session(chance, at_publisher=name == "p")
        for name in chance.sample(["a", "b", "c", "p"], 3)
    }
    steps = []
    while queues:
        name = chance.choice(sorted(queues))
        length = chance.choice((1, 1, 2, 6))
        steps += [(name, text) for text in queues[name][:length]]
        del queues[name][:length]
        if not queues[name]:
            del queues[name]
    steps.append(("p", "sync"))
    shipping = "lazy" if chance.random() < 0.25 else "eager"
    return History(name=f"seed {seed}", shipping=shipping, steps=tuple(steps))


def _session(chance: random.Random, *, at_publisher: bool) -> list[str]:
    steps: list[str] = []
    for _ in range(chance.choice((1, 2, 2, 3))):
        level = chance.choice(("", "", "", " repeatable read"))
        steps.append(f"begin{level}")
        saved = False
        for _ in range(chance.choice((1, 2, 3, 4))):
            if not at_publisher and chance.random() < 0.25:
                steps.append("savepoint s")
                saved = True
            steps.append(_statement(chance))
            if saved and chance.random() < 0.4:
                steps.append(chance.choice(("rollback to savepoint s", "release savepoint s")))
                saved = steps[-1].startswith("rollback")
        steps.append(chance.choice(("commit", "commit", "commit", "rollback")))
        if not at_publisher and chance.random() < 0.2:
            steps.append("sync")
    return steps


def _statement(chance: random.Random) -> str:
    return chance.choice(STATEMENTS).format(
        k=chance.randint(1, 3),
        j=chance.randint(1, 3),
        n=chance.randint(1, 4),
        s=chance.choice(NAMES),
    )


def on_model(history: History) -> Played | None:
    """Play a history in virtual time; return None if it takes long on real servers."""
    played = ModelRun(history).run()
    return None if any(word in line for line in played.lines for word in _SLOW) else played


def quiet_seeds(count: int) -> list[int]:
    """Return the first seeds of histories without waits, in which nothing depends on speed."""
    found: list[int] = []
    seed = 0
    while len(found) < count:
        played = on_model(drawn(seed))
        if played is not None and not any("waits" in line for line in played.lines):
            found.append(seed)
        seed += 1
    return found


async def compare(seeds: range, tell: Callable[[str], object]) -> list[int]:
    """Return the seeds whose histories have other results on real servers; report each one."""
    wrong: list[int] = []
    count = 0
    with EmbeddedServer.start() as server:
        world = await World.make(server)
        try:
            for seed in seeds:
                history = drawn(seed)
                played = on_model(history)
                if played is None:
                    continue
                count += 1
                there = await world.play(history)
                if there.text() != played.text():
                    wrong.append(seed)
                    tell(_difference(history, played, there))
        finally:
            await world.close()
    tell(f"{count} histories, {len(wrong)} otherwise: {wrong}\n")
    return wrong


def _difference(history: History, played: Played, there: Played) -> str:
    lines = [f"== {history.name}", *[f"{name}: {text}" for name, text in history.steps]]
    pairs = zip(played.text().split("\n"), there.text().split("\n"), strict=False)
    first = next(((one, other) for one, other in pairs if one != other), ("", ""))
    return "\n".join((*lines, f"  model:    {first[0]}", f"  postgres: {first[1]}", ""))


if __name__ == "__main__":
    asyncio.run(compare(range(int(sys.argv[1]), int(sys.argv[2])), sys.stdout.write))
