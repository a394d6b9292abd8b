"""Snapshots with rows in binary format, and the role that loads the rows."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.merge.snapshots import one
from twopc.errors import ConfigurationError, MergeError, SubscriptionError
from twopc.sim.merge import MergeTopology

_TYPES = (
    "create type mood as enum ('good', 'bad');"
    " create table item (id bigint primary key, a text, b numeric(9, 2), c timestamptz, d uuid, e jsonb, f int[], g mood,"
    " h bytea, i inet, j daterange, k float8, l varchar(5), twice bigint generated always as (id * 2) stored);"
    " insert into item values (1, e'tab\\t \\\\ line\\n', 1.50, '2026-01-01 12:00+02', gen_random_uuid(), '{\"x\": [1]}',"
    " '{1,NULL}', 'bad', '\\x00ff', '10.0.0.1/8', '[2026-01-01,2026-02-01)', 'NaN', ''),"
    " (2, null, null, null, null, null, null, null, null, null, null, null, null)"
)


async def test_values_of_every_kind(topology: MergeTopology, tmp_path: Path) -> None:
    """Values of all kinds arrive unchanged, when initialised and when reinitialised.

    The same generation can also be written as text.
    """
    await topology.execute("pub", _TYPES)
    await topology.publish("item")
    text = await topology.snapshot(tmp_path / "text")
    made = await topology.snapshot(tmp_path, data_format="binary")
    assert (made.rows, made.generation) == (2, text.generation)
    assert one(tmp_path / "unc", "*.bcp").read_bytes().startswith(b"PGCOPY\n")
    await topology.subscribe("anna", snapshot_location=made.location)
    await topology.assert_converged()
    await topology.execute("anna", "alter table item add note text default 'own'")
    await topology.reinitialise("anna", snapshot_location=made.location)
    await topology.assert_converged()
    assert await topology.execute("anna", "select note, twice from item order by id") == [
        ("own", 2),
        ("own", 4),
    ]


async def test_what_has_no_binary_format(topology: MergeTopology, tmp_path: Path) -> None:
    """Types specific to one database, and other server versions, are refused with a remedy."""
    await topology.execute("pub", _TYPES + "; create domain price as numeric check (value > 0)")
    await topology.publish("item")
    with pytest.raises(ConfigurationError, match="'csv': use 'text' or 'binary'"):
        await topology.snapshot(tmp_path, data_format="csv")
    await topology.unpublish("item")
    for kind in ("mood[]", "price", "regclass", "item"):
        await topology.execute("pub", f"create table odd (id int primary key, bad {kind})")
        await topology.publish("odd")
        with pytest.raises(MergeError, match=r"column 'bad' is of type .*: make .* in text"):
            await topology.snapshot(tmp_path, data_format="binary")
        await topology.unpublish("odd")
        await topology.execute("pub", "drop table odd")
    await topology.publish("item")
    made = await topology.snapshot(tmp_path, data_format="binary")
    path = Path(made.location) / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8")) | {"server_version": 170004}
    path.write_text(json.dumps(manifest), encoding="utf-8")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    await topology.execute(
        "pub", "update msrepl.msmerge_dynamic_snapshots set digest = %s", (digest,)
    )
    with pytest.raises(MergeError, match=r"of PostgreSQL 17, and anna .* PostgreSQL 18: make"):
        await topology.subscribe("anna")
    assert not await topology.merges("anna")


_SPY = (
    "create table seen (who text); grant insert on seen to public;"
    " create function look(int) returns boolean language plpgsql as"
    " $$ begin insert into public.seen values (current_user); return true; end $$"
)


@pytest.mark.parametrize(
    "own", ["add check (look(amount))", "add mine boolean default look(1)", "alter id type number"]
)
@pytest.mark.parametrize("data_format", ["text", "binary"])
async def test_no_code_of_an_owner_runs_as_a_superuser(
    topology: MergeTopology, tmp_path: Path, own: str, data_format: str
) -> None:
    """Checks, defaults and domains run as the table's role while files are loaded."""
    await topology.execute("pub", "create table item (id int primary key, amount int)")
    await topology.execute("pub", "insert into item values (1, 1), (2, 2)")
    await topology.publish("item")
    await topology.snapshot(tmp_path, data_format=data_format)
    await topology.execute("anna", _SPY + "; create domain number as int check (look(value))")
    topology.points.arm("merge_delivery.file_loaded(anna)", _stop, nth=2)
    with pytest.raises(EOFError):
        await topology.subscribe("anna")
    await topology.execute("anna", f"alter table item {own}; truncate seen")
    try:
        await topology.subscribe("anna")
    except SubscriptionError as error:
        assert "make a snapshot in text" in str(error)
        assert (own, data_format) == ("alter id type number", "binary")
        return
    [(who, count)] = await topology.execute("anna", "select who, count(*) from seen group by 1")
    assert count >= 2
    [(is_superuser,)] = await topology.execute(
        "anna", "select rolsuper from pg_roles where rolname = %s", (who,)
    )
    assert not is_superuser


def _stop(_: str) -> None:
    raise EOFError
