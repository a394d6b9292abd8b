"""A role that can create objects in the schema of published tables cannot run code with our privileges."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.fix_topology import MakeTopology, Pair
from tests.traps import REACHED, traps
from tests.validation.ends import ends
from twopc import names
from twopc.publisher.publication import owner_role
from twopc.sim.topology import Topology
from twopc.sim.validation import validate

TABLES = """
create type app.kind as enum ('a', 'b');
create table app.parent (id varchar(20) primary key, n int2);
create table app.account (
    id varchar(20), part app.kind, primary key (id, part),
    code varchar(10) unique,
    tags int[] not null,
    balance numeric(12, 2),
    document json,
    parent varchar(20) references app.parent on delete cascade
);
create table app.note (id varchar, tags int[]);
create function app.write_note(a app.account) returns void language sql
    as 'insert into app.note values (a.id, a.tags)';
create function app.note() returns trigger language plpgsql as $$
begin
    perform write_note(new);
    if tg_op = 'INSERT' and starts_with(new.id::text, 'z') then return null; end if;
    return new;
end $$;
create trigger note before insert or update on app.account for each row execute function app.note();
"""
"""Tables with key and value types for which pg_catalog has no exact operators.

A trigger of the user finds a function by its search path.
"""


async def stranger_at(topology: Topology, node: str, schema: str) -> psycopg.AsyncConnection[Any]:
    """Return a session of the application's role, which can create objects in the schema."""
    there = topology.node(node)
    await topology.execute(node, f'grant usage, create on schema {schema} to "{there.app_role}"')
    return await psycopg.AsyncConnection.connect(there.app_dsn, autocommit=True)


async def everything(pair: Pair) -> None:
    """Execute every kind of statement, and cause every kind of refusal."""
    await pair.run(
        "insert into parent values ('p', 1), ('q', 2), ('r', 3), ('s', 4)",
        "insert into account select 'a' || g, 'a', 'c' || g, array[g], g, '{}', 'p' from generate_series(1, 9) g",
    )
    await pair.run(
        "update account set code = code || 'x', tags = tags || 7, document = '{\"b\": 1}' where id <= 'a5'",
        "update account set id = 'b' || id, part = 'b' where id = 'a5'",
        "update parent set n = n + 1",
        "delete from account where id = 'a6'",
        "update account set tags = null::int[] || 1, balance = null, parent = null where id = 'a7'",
        "delete from account where id = 'a7'",
        "delete from parent where id = 'r'",
    )
    refusals = {
        "insert into account values ('x', 'a', 'taken', '{}', 1, null, null)": "23505",
        "update account set code = 'taken' where id = 'a1'": "23505",
        "update account set balance = 0 where id = 'a2'": "40001",
        "update account set balance = 0 where id = 'a3'": "40001",
        "delete from account where id = 'a2'": "40001",
        "delete from account where id = 'a3'": "40001",
        "insert into account values ('y', 'a', 'y', '{}', 1, null, 'q')": "23503",
        "insert into account values ('z', 'b', 'z', '{}', 1, null, null)": "09000",
        "delete from parent where id = 's'": "23503",
    }
    owner = await pair.topology.admin("pub")
    await owner.execute(
        "begin; set local session_replication_role = replica;"
        " insert into app.account values ('t', 'a', 'taken', '{}', 1, null, null), ('u', 'a', 'u', '{}', 1, null, 's');"
        " update app.account set balance = 99 where id = 'a2'; delete from app.account where id = 'a3';"
        " delete from app.parent where id = 'q'; commit"
    )
    for statement, sqlstate in refusals.items():
        error = await pair.refused(statement)
        assert error.sqlstate == sqlstate, (statement, error)


@pytest.mark.parametrize("laid", ["before", "after"])
async def test_sync_procedures(make_topology: MakeTopology, laid: str) -> None:
    """No trap is executed by any change or refusal, whether it was created before or after publishing.

    A trigger finds operators in its schema if no other role could create any there when the
    table was published.
    """
    topology = await make_topology(subscribers=("sub1",))
    own = "app.write_note" if laid == "before" else "write_note"
    await topology.execute("pub", "create schema app")
    await topology.execute("pub", TABLES.replace("write_note(new)", f"{own}(new)"))

    async def lay() -> None:
        async with await stranger_at(topology, "pub", "app") as stranger:
            await traps(stranger, "app", "app.kind", "app.account")
            await stranger.execute("set search_path = pg_catalog, app")
            with pytest.raises(psycopg.Error) as caught:
                await stranger.execute("select 'x'::varchar = 'x'::varchar")
            assert caught.value.sqlstate == REACHED, "the traps do not work"

    if laid == "before":
        await lay()
    for table in ("parent", "account"):
        await topology.publish(table, schema="app")
    shown = await topology.execute(
        "pub",
        "select prosrc like '%%\"app\", \"public\"%%' from pg_proc where proname = 'mssync_change_ins_app__account'",
        (),
    )
    assert shown == [(laid == "after",)], "where triggers look"
    role = names.table_role(owner_role(topology.node("pub").database), "app", "account")
    await topology.execute("pub", f"grant insert on app.note to {role}")
    await topology.subscribe("sub1")
    pair = Pair(topology, "sub1")
    await pair.open()
    async with pair.app:
        await pair.app.execute("set search_path = app")
        if laid == "after":
            await lay()
        await everything(pair)
    notes = await topology.execute("pub", "select count(*) from app.note")
    assert notes[0][0] > 9


async def test_agents_and_validation(make_topology: MakeTopology) -> None:
    """Traps in schema public of both databases, which is in every role's search path, are not executed."""
    topology = await make_topology(subscribers=("sub1",))
    await topology.execute(
        "pub", TABLES.replace("app.", "public.").replace(" write_note(", " public.write_note(")
    )
    for table in ("parent", "account"):
        await topology.publish(table)
    await topology.subscribe("sub1")
    await topology.sync()
    for name in ("pub", "sub1"):
        async with await stranger_at(topology, name, "public") as stranger:
            await traps(stranger, "public", "public.kind", "public.account")
        await topology.execute(
            name, "set search_path = pg_catalog, pg_temp"
        )  # as administrators do

    many = "select 'a' || g, 'a', 'c' || g, array[g], g, '{}', 'p' from generate_series(1, 99) g"
    for statement in (
        "insert into public.parent values ('p', 1), ('q', 2)",
        f"insert into public.account {many}",
        "update public.account set code = code || 'x', tags = tags || 7, document = '{\"b\": 1}'",
        "update public.account set id = 'b' || id where id <= 'a5'",
        "update public.parent set n = n + 1",
        "delete from public.account where id > 'a9'",
        # unique values that are exchanged, which requires the net effect
        "begin; set constraints all deferred; update public.account set code = 'c' where id = 'a6';"
        " update public.account set code = 'a6' where id = 'a7'; commit",
    ):
        await topology.execute("pub", statement)
        await topology.sync()
    await topology.execute(
        "sub1",
        "begin; set local session_replication_role = replica;"
        " update public.account set balance = 0 where id = 'a6'; delete from public.account where id = 'a7';"
        " insert into public.account values ('extra', 'b', 'extra', '{}', 1, null, 'p', gen_random_uuid()); commit",
    )
    found = await validate(ends(topology, "sub1"), advance=topology.sync, repair=True)
    assert sum(len(each.repaired) for each in found) == 3
    await topology.assert_converged()
