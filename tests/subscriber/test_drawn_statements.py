"""Random statements on tables with foreign keys of every kind: both ends are equal, without false refusals."""

from __future__ import annotations

import random

import psycopg
import pytest

from tests.fix_topology import MakePair, Pair

pytestmark = pytest.mark.immediate

TABLES = ("a", "b", "c")
COLUMNS = {"a": ("u", "n"), "b": ("a_id", "a2", "n"), "c": ("b_id", "a_id", "up", "n")}
ROWS = """
insert into a (id, u) select g, g from generate_series(1, 8) as g;
insert into b (id, a_id, a2) select g, 1 + g * 7 % 8, case when g % 3 > 0 then 1 + g * 5 % 8 end
from generate_series(1, 10) as g;
insert into c (id, b_id, a_id, up) select g, 1 + g * 3 % 10, 1 + g * 5 % 8, case when g % 2 = 0 then g - 1 end
from generate_series(1, 14) as g
"""


class Draw:
    """Draws schemas and statements."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def schema(self) -> str:
        """Return three tables with five foreign keys, one of them to its own table, and random actions."""

        def acts() -> str:
            actions = ["no action", "cascade", "cascade", "set null", "set default"]
            return (
                f"on delete {self.chance.choice(actions)} on update {self.chance.choice(actions)}"
            )

        return f"""
        create table a (id int primary key, u int unique {self.chance.choice(["", "deferrable"])}, n int);
        create table b (id int primary key, a_id int references a {acts()}, a2 int references a {acts()}, n int);
        create table c (id int primary key, b_id int references b {acts()}, a_id int references a {acts()},
                        up int references c {acts()}, n int)
        """

    def change(self) -> str:
        """Return one INSERT, UPDATE, DELETE or MERGE."""
        table, key = self.chance.choice(TABLES), self.chance.randint(1, 10)
        column, value = self.chance.choice(COLUMNS[table]), self.chance.randint(1, 8)
        return self.chance.choice(
            [
                f"delete from {table} where id = {key}",
                f"delete from {table} where id % 4 = {key % 4}",
                f"update {table} set id = id + 100 where id = {key}",
                f"update {table} set id = -id where id % 3 = {key % 3}",
                f"update {table} set {column} = {value} where id = {key}",
                f"update {table} set {column} = null where id % 3 = {key % 3}",
                f"insert into {table} (id, {column}) values ({self.chance.randint(200, 9999)}, {value})",
                f"update {table} set id = {self.chance.randint(300, 400)}, {column} = {value} where id = {key}",
                f"merge into {table} as t using (values ({key}), ({key + 1}), ({key + 500})) as v(i)"
                " on t.id = v.i when matched and v.i % 2 = 0 then delete"
                " when matched then update set n = coalesce(n, 0) + 1 when not matched then insert (id) values (v.i)",
            ]
        )

    def statement(self) -> str:
        """Return one change, or several in one statement."""
        others = self.chance.choice([0, 0, 1, 2])
        parts = [f"x{place} as ({self.change()} returning 1)" for place in range(others)]
        return f"{'with ' + ', '.join(parts) if parts else ''} {self.change()}"


async def passes(pair: Pair, statements: list[str], shipping: str) -> bool:
    """Return whether a transaction is accepted; only the Subscriber's own constraints may refuse it."""
    try:
        await pair.run(*statements, shipping=shipping)
    except psycopg.Error as error:
        assert "msrepl" not in (error.diag.context or ""), f"refused: {statements}: {error}"
        return False
    return True


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(8))
async def test_drawn_statements(make_pair: MakePair, seed: int) -> None:
    """Statements that PostgreSQL accepts at the Subscriber are accepted by the Publisher, with the same result."""
    draw = Draw(seed)
    pair = await make_pair(draw.schema(), ROWS, publish=TABLES)
    await pair.save(*TABLES)
    accepted = 0
    for turn in range(40):
        statements = [draw.statement() for _ in range(draw.chance.choice([1, 1, 2, 3]))]
        accepted += await passes(pair, statements, draw.chance.choice(["eager", "lazy"]))
        await pair.equal(*TABLES, after=f"seed {seed}, turn {turn}: {statements}")
        if turn % 6 == 5:
            await pair.restore(*TABLES)
    assert accepted > 5
