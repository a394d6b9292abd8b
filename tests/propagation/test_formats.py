"""Default procedures apply the Publisher's changes in every format, for tables of every width."""

from __future__ import annotations

import json

import pytest

from tests.propagation.here import Here, mask
from twopc.propagation import Format, parameters

WIDTHS = (1, 8, 9, 64, 246)


def table(columns: int) -> str:
    """Return a table definition whose key is the middle column."""
    middle = (columns + 1) // 2
    names = [
        f"col{n} integer" + (" primary key" if n == middle else "") for n in range(1, columns + 1)
    ]
    return f"create table t ({', '.join(names)})"


def arguments(form: str, old: list[int], new: list[int], key: int) -> list[object]:
    """Return the arguments of an update from `old` to `new`; the key is column number `key`."""
    changed = [n for n, (a, b) in enumerate(zip(old, new, strict=True), 1) if a != b]
    bits = mask(len(old), *changed)
    match form:
        case "CALL":
            return [*new, old[key - 1]]
        case "SCALL":
            sent = [value if n in changed else None for n, value in enumerate(new, 1)]
            return [*sent, old[key - 1], bits]
        case "MCALL":
            return [*new, old[key - 1], bits]
    return [*old, *new]


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("upd", ["CALL", "SCALL", "MCALL", "XCALL"])
async def test_rows_come_change_and_go(here: Here, columns: int, upd: str) -> None:
    """Insert, updates of one column and of all including the key, and delete leave another row unchanged."""
    dele = "XCALL" if upd == "XCALL" else "CALL"
    article = await here.subscribe(table(columns), methods={"upd": upd, "dele": dele})
    assert len(parameters(article, "ins", Format.CALL)) == columns
    key = (columns + 1) // 2
    row = [1000 + n for n in range(1, columns + 1)]
    other = [-n for n in range(1, columns + 1)]
    await here.apply("ins", *row)
    await here.apply("ins", *other)
    last = list(row)
    last[-1] += 7
    everything = [value * 2 for value in last]
    for old, new in ((row, last), (last, everything)):
        if old != new:
            await here.apply("upd", *arguments(upd, old, new, key))
            assert await here.rows(columns="*") == sorted([tuple(other), tuple(new)])
    image = everything if dele == "XCALL" else [everything[key - 1]]
    await here.apply("del", *image)
    assert await here.rows() == [tuple(other)]


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("upd", ["CALL", "SCALL", "MCALL", "XCALL"])
async def test_a_row_that_is_not_there_is_named(here: Here, columns: int, upd: str) -> None:
    """A missing row is reported as 20598 with command, table and key."""
    dele = "XCALL" if upd == "XCALL" else "CALL"
    await here.subscribe(table(columns), methods={"upd": upd, "dele": dele})
    key = (columns + 1) // 2
    old, new = list(range(1, columns + 1)), list(range(2, columns + 2))
    error = await here.fails("upd", *arguments(upd, old, new, key))
    assert error.sqlstate == "P0002"
    assert error.diag.message_primary == (
        "the row was not found at the Subscriber when applying the replicated UPDATE command for table t "
        f"with primary key col{key} = {key} (20598)"
    )
    facts = json.loads(error.diag.message_detail or "")
    assert facts == {
        "kind": "row_missing", "number": 20598, "command": "UPDATE", "article": "t",
        "key": {f"col{key}": key}, "statement": None,
    }  # fmt: skip
    error = await here.fails("del", *(old if dele == "XCALL" else [key]))
    assert "replicated DELETE command" in str(error.diag.message_primary)
