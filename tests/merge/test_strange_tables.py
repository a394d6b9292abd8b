"""Tables with unusual definitions, and values that are equal without being identical."""

from __future__ import annotations

import pytest
from psycopg import errors

from tests.fix_merge import converge
from tests.fix_topology import share
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology

TRIGGERS = """
create table item (id int primary key, n int);
insert into item select n, n from generate_series(1, 4) as n;
create function drop_empty() returns trigger language plpgsql as $$
begin delete from item where id = new.id; return null; end $$;
create trigger drop_empty after update on item for each row when (new.n = 0) execute function drop_empty();
create function keep_marked() returns trigger language plpgsql as $$
begin insert into item values (old.*); return null; end $$;
create trigger keep_marked after delete on item for each row when (old.n = 7) execute function keep_marked();
"""


async def test_triggers_that_change_the_row_for_which_they_fire(topology: MergeTopology) -> None:
    """A row that its own trigger deletes is deleted everywhere; one that it restores is kept."""
    await share(topology, "item", TRIGGERS)
    await topology.execute("pub", "update item set n = 0 where id = 1")
    await topology.execute(
        "pub", "update item set n = 7 where id = 2; delete from item where id = 2"
    )
    await topology.sync("anna")
    assert await topology.execute("anna", "select id, n from item order by id") == [
        (2, 7), (3, 3), (4, 4),
    ]  # fmt: skip
    await converge(topology)


async def test_what_a_trigger_changes_beside_an_agent_travels(topology: MergeTopology) -> None:
    """A trigger's change of another row in the slice being applied is merged to other nodes."""
    await share(
        topology,
        "address",
        "create table address (id int primary key, customer int, main bool);"
        " insert into address values (1, 1, true), (2, 1, false)",
    )
    await topology.execute(
        "anna",
        "create function one_main() returns trigger language plpgsql as $$ begin"
        " update public.address set main = false where customer = new.customer and id <> new.id and main;"
        " return null; end $$;"
        " create trigger one_main after update on address for each row when (new.main) execute function one_main();"
        " alter table address enable always trigger one_main",
    )
    await topology.execute("pub", "update address set main = true, customer = 1")
    await converge(topology)


async def test_identities_that_take_no_update(topology: MergeTopology) -> None:
    """A new value of a GENERATED ALWAYS identity arrives, in both directions."""
    await share(
        topology,
        "entry",
        "create table entry (id int generated always as identity primary key, v text);"
        " insert into entry (v) values ('x'), ('y')",
        tracking="column",
    )
    await topology.execute("pub", "update entry set id = default where v = 'x'")
    await topology.execute("anna", "update entry set id = 50 where v = 'y'")
    await topology.settle()
    for node in ("pub", "anna"):
        assert await topology.execute(node, "select id, v from entry order by v") == [
            (3, "x"),
            (50, "y"),
        ]


VALUES = """
create type mood as enum ('good', 'bad');
create function as_text(mood) returns text language plpgsql as $$ begin raise 'called as %', current_user; end $$;
create cast (mood as text) with function as_text(mood) as implicit;
create table measure (
    id int primary key, amount numeric, span interval, place point, about json, feeling mood, zero float8, other int
);
insert into measure values (1, 1.0, '1 mon', '(1,2)', '{"a": 1}', 'good', 0, 0);
"""


async def test_values_that_are_equal_and_not_the_same(topology: MergeTopology) -> None:
    """A change to an equal but different value is a change of the column.

    Code of the owner's types is not called to detect it.
    """
    await topology.execute("pub", VALUES)
    await topology.execute("anna", VALUES.partition("create table")[0])
    await topology.publish("measure", tracking="column")
    await topology.subscribe("anna")
    await topology.execute(
        "anna",
        "update measure set amount = 1.00, span = '30 days', zero = '-0', about = '{\"a\":1}', feeling = 'bad'",
    )
    await topology.execute("pub", "update measure set other = 1")
    report = await topology.sync("anna")
    assert (report.conflicts, report.uploaded) == (0, 1)
    [row] = await topology.execute("pub", "select row(m.*)::text from measure as m")
    assert '1.00,"30 days","(1,2)"' in row[0] and '"{""a"":1}",bad,-0,1' in row[0]
    await topology.assert_converged()


async def test_columns_that_were_widened(topology: MergeTopology) -> None:
    """Precision and width are those of the table now, not those when it was published."""
    await share(
        topology,
        "price",
        "create table price (id int primary key, amount numeric(8,2), code varchar(3), letter char(2));"
        " insert into price values (1, 1.25, 'abc', 'x')",
    )
    for node in ("pub", "anna"):
        await topology.execute(
            node,
            "alter table price alter amount type numeric(12,4), alter code type varchar(200), alter letter type char(5)",
        )
    await topology.execute(
        "anna", "update price set amount = 1.2345, code = 'abcdef', letter = 'xyz'"
    )
    await topology.sync("anna")
    assert await topology.execute("pub", "select amount::text, code, letter from price") == [
        ("1.2345", "abcdef", "xyz  ")
    ]


CHECKS = """
create table secret (n int);
create function judge(n int) returns boolean language plpgsql as $$
begin
    assert n <> 1, 'not one';
    if n = 2 then return exists (select from public.secret); end if;
    if n = 3 then raise 'not three'; end if;
    return true;
end $$;
create domain guarded as int check (judge(value));
create table mine (id int primary key, n {});
"""


async def test_checks_that_fail_in_strange_ways(topology: MergeTopology) -> None:
    """A failed assertion, a missing right and an exception in a domain fail one row each."""
    await topology.execute("pub", CHECKS.format("guarded"))
    await topology.execute("anna", CHECKS.format("guarded").partition("create table mine")[0])
    await topology.publish("mine")
    await topology.subscribe("anna")
    await topology.execute(
        "anna", "create or replace function judge(n int) returns boolean return true"
    )
    await topology.execute("anna", "insert into mine select n, n from generate_series(1, 4) as n")
    report = await topology.sync("anna")
    assert (report.uploaded, report.retried) == (1, 3)
    codes = {conflict.reason_code for conflict in await topology.conflicts()}
    assert codes == {"P0004", "42501", "P0001"}


async def test_deferred_triggers_that_refuse(topology: MergeTopology) -> None:
    """A deferred constraint trigger that raises an error fails its row only."""
    await share(topology, "vote", "create table vote (id int primary key, n int unique)")
    await topology.execute(
        "pub",
        "create function refuse() returns trigger language plpgsql as $$ begin raise 'no vote of %', new.n; end $$;"
        " create constraint trigger refuse after insert on vote deferrable for each row when (new.n = 13)"
        " execute function refuse(); alter table vote enable always trigger refuse",
    )
    await topology.execute("anna", "insert into vote values (1, 13), (2, 2)")
    report = await topology.sync("anna")
    assert (report.uploaded, report.retried) == (1, 1)
    assert await topology.execute("pub", "select id from vote") == [(2,)]


async def test_two_keys_that_set_null(server: EmbeddedServer) -> None:
    """Two foreign keys, added later, may set columns of one row to null in a statement."""
    async with MergeTopology(server=server, subscribers=()) as topology:
        await topology.execute(
            "pub", "create table p (id int primary key); create table c (id int primary key, a int, b int);"
            " insert into p values (1); insert into c values (1, 1, 1)",
        )  # fmt: skip
        await topology.publish("p")
        await topology.publish("c", tracking="column")
        await topology.execute(
            "pub", "alter table c add foreign key (a) references p on delete set null,"
            " add foreign key (b) references p on delete set null",
        )  # fmt: skip
        await topology.execute("pub", "delete from p")
        assert await topology.execute("pub", "select a, b from c") == [(None, None)]


async def test_versions_beyond_counting(topology: MergeTopology) -> None:
    """An impossible version from an agent is refused, and applications can still change the row."""
    await topology.execute(
        "pub", "create table item (id int primary key); insert into item values (1)"
    )
    article = await topology.publish("item")
    await topology.subscribe("anna")
    [(guid,)] = await topology.execute("pub", "select rowguid from item")
    [(replica,)] = await topology.execute("anna", "select replica from msrepl.msmerge_replica")
    connection = await topology.admin("pub")
    [(role,)] = await topology.execute(
        "pub", "select login from msrepl.sysmergesubscriptions where not is_self"
    )
    await connection.execute(f"set session authorization {role}".encode())
    answer = await topology.execute(
        "pub", "select applied, codes from msrepl.merge_apply(%s, array[%s]::uuid[], array[false], array[%s],"
        " array[null]::text[], array[%s]::int8[], array['(2)'], false)",
        (article.artid, guid, f"{{{replica << 31 | 2**31 - 1}}}", replica),
    )  # fmt: skip
    await connection.execute("reset session authorization")
    assert answer == [(0, ["22003"])]
    await topology.execute("pub", "update item set id = 3")
    with pytest.raises(errors.UniqueViolation):
        await topology.execute("pub", "insert into item values (3)")
