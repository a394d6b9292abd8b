"""Tests of drawn histories: folding the commands of an article yields its rows in the table."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.distribution.logged import Logged
from tests.distribution.made import propagation
from twopc.distributed_article import DistributedArticle
from twopc.propagation import changed_columns, record_values
from twopc.publisher import publication
from twopc.publisher.commands import Command

Row = tuple[bytes | None, ...]

TABLE = """
create table t (
    a integer, n integer, body text, b text not null, twice integer generated always as (n * 2) stored,
    tags integer[], primary key (b, a)
) partition by list (a);
create table t1 partition of t for values in (1, 2);
create table t2 partition of t default;
alter table t1 alter body set storage external;
"""


def fold(article: DistributedArticle, rows: dict[Row, Row], command: Command) -> None:
    """Apply a command to `rows` (by key) as a default procedure does; a missing row is an error."""
    columns = [column.name for column in article.article.value_columns]
    places = [columns.index(name) for name in article.article.key]
    width, keys = len(columns), len(places)
    _, kind, _, text = command
    values = record_values(text)

    def key_of(row: list[bytes | None] | Row) -> Row:
        return tuple(row[place] for place in places)

    if kind == 1:
        assert key_of(values) not in rows
        rows[key_of(values)] = tuple(values)
        return
    form = article.propagation.method("upd" if kind == 2 else "del").format
    if kind == 3:
        del rows[key_of(values) if form == "XCALL" else tuple(values)]
        return
    if form == "XCALL":
        old, new = tuple(values[:width]), tuple(values[width:])
        assert rows.pop(key_of(old)) == old
    else:
        before = rows.pop(tuple(values[width : width + keys]))
        new = tuple(values[:width])
        if form in ("SCALL", "MCALL"):
            changed = changed_columns(bytes.fromhex(str(values[-1], "ascii")[2:]))  # type: ignore[arg-type]
            if form == "MCALL":
                assert changed == [n for n in range(width) if new[n] != before[n]]
            new = tuple(new[n] if n in changed else before[n] for n in range(width))
    assert key_of(new) not in rows
    rows[key_of(new)] = new


def statement(chance: random.Random) -> str:
    """Draw a statement that changes rows; it may fail."""
    key = f"b = '{chance.choice('xyz')}'"
    where = chance.choice(
        [key, f"{key} and a = {chance.randint(1, 4)}", f"n > {chance.randint(0, 9)}", "n is null"]
    )
    number = chance.choice(["null", str(chance.randint(0, 9)), "n + 1"])
    body = chance.choice(
        ["null", "''", "'\"a\\b'''", f"repeat('{chance.choice('pq')}', 3000)", "body || 'x'"]
    )
    match chance.randint(0, 9):
        case 0 | 1 | 2:
            insert = "null" if "n" in number else number
            text = "null" if "body" in body else body
            return (
                f"insert into t (a, n, body, b) values ({chance.randint(1, 4)}, {insert}, {text}, "
                f"'{chance.choice('xyz')}')"
            )
        case 3 | 4:
            return f"update t set n = {number} where {where}"
        case 5:
            return f"update t set body = {body} where {where}"
        case 6:
            return f"update t set tags = array[n, null, {chance.randint(0, 3)}] where {where}"
        case 7:
            return f"update t set a = {chance.randint(1, 4)} where {where}"
        case 8:
            return f"update t set b = '{chance.choice('xyz')}', n = {number} where {where}"
    return f"delete from t where {where}"


async def play(logged: Logged, chance: random.Random, statements: int) -> None:
    """Run transactions of several statements with savepoints; some are prepared or rolled back."""
    for place in range(statements):
        await logged.execute("begin")
        for _ in range(chance.randint(1, 4)):
            await logged.execute("savepoint s")
            try:
                await logged.execute(statement(chance))
            except Exception as error:  # duplicate key
                assert "duplicate key" in str(error)
                await logged.execute("rollback to s")
                continue
            if chance.random() < 0.1:
                await logged.execute("rollback to s")
        how = chance.choice(["commit", "commit", "rollback", "prepare"])
        if how == "prepare":
            await logged.execute(f"prepare transaction 'fold {place}'")
            how = chance.choice(["commit", "rollback"]) + f" prepared 'fold {place}'"
        await logged.execute(how)


async def held(logged: Logged, article: DistributedArticle) -> set[Row]:
    """Return an article's rows in the table, as text in the format of the log."""
    columns = ", ".join(f'"{c.name}"::text' for c in article.article.value_columns)
    found = await logged.execute(
        f"select {columns} from t where {article.article.row_filter or 'true'}"
    )
    return {tuple(None if v is None else str(v).encode() for v in row) for row in found}


@pytest.mark.parametrize("form", ["SCALL", "MCALL", "XCALL", "CALL"])
@pytest.mark.parametrize("seed", range(2))
async def test_folding(logged: Logged, form: str, seed: int) -> None:
    """Folding yields the rows of an article, and of filtered ones that rows enter and leave."""
    chance = random.Random(seed)
    await logged.execute(TABLE)
    how = propagation(upd=form, dele="XCALL" if form == "XCALL" else "CALL", large=())
    await publication.publish(
        logged.connection, "public", "t", columns=("a", "b", "n", "body"), propagation=how,
    )  # fmt: skip
    for condition in ("n > 4", "twice < 9 or tags[3] = 1", "body like '%x' or b <> 'z'"):
        await publication.publish_part(logged.connection, "public", "t", condition)
    articles = await publication.distributed_articles(logged.connection)
    folded: dict[int, dict[Row, Row]] = {each.article_id: {} for each in articles}
    by_id = {each.article_id: each for each in articles}
    counted: dict[Any, int] = {}
    for _ in range(6):
        await play(logged, chance, 25)
        for command in await logged.commands(articles):
            fold(by_id[command[0]], folded[command[0]], command)
            counted[command[:2]] = counted.get(command[:2], 0) + 1
        for article in articles:
            assert set(folded[article.article_id].values()) == await held(logged, article)
    assert len(counted) == 12  # each operation of each article
