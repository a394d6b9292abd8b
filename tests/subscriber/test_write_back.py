"""Values that the Publisher stores differently are returned in the same transaction, or the change is refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.fix_topology import MakePair, MakeTopology, Pair
from tests.publisher.test_values import ODD_SETTINGS, has_xml
from twopc import names
from twopc.errors import SubscriptionError
from twopc.publisher.publication import owner_role

pytestmark = pytest.mark.immediate

STAMPED = """
create table item (id int primary key, name text, price numeric, changed int not null default 0);
create function tidy() returns trigger language plpgsql as $$
begin
    new.name := upper(new.name);
    new.changed := new.changed + 1;
    return new;
end $$;
create trigger tidy before insert or update on item for each row execute function tidy();
insert into item select g, 'n' || g, g from generate_series(1, 5) as g;
"""


def trigger(
    when: str, table: str, body: str, name: str = "act", rights: str = "security definer"
) -> str:
    """Return a PL/pgSQL trigger for the Publisher."""
    return f"""
        create function {name}() returns trigger language plpgsql {rights} as $$ begin {body} return null; end $$;
        create trigger {name} {when} on {table} for each row execute function {name}();
    """


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
async def test_columns_that_a_trigger_changes(make_pair: MakePair, shipping: str) -> None:
    """Columns that a BEFORE trigger changes at the Publisher are returned, for INSERT and UPDATE of one row or many."""
    pair = await make_pair(STAMPED, publish=["item"])

    calls = await pair.run(
        "insert into item values (10, 'ten', 10)",
        "insert into item select g, 'many', g from generate_series(11, 40) as g",
        "update item set name = 'one' where id = 1",
        "update item set price = price + 1",
        "delete from item where id = 2",
        "insert into item values (1, 'again', 7) on conflict (id) do update set name = excluded.name",
        shipping=shipping,
    )

    assert calls == (6 if shipping == "eager" else 5)  # if lazy, the DELETE is sent with the next
    rows = await pair.same("item")
    assert len(rows) == 35
    assert await pair.topology.execute("sub1", "select name, changed from item where id = 1") == [
        ("AGAIN", 4)
    ]


async def test_the_next_statement_sees_what_came_back(make_pair: MakePair) -> None:
    """Values are returned within the statement, so that later statements of the transaction see them."""
    pair = await make_pair(STAMPED, publish=["item"])

    await pair.begin()
    await pair.execute("insert into item values (10, 'ten', 10)")
    assert await pair.execute("select name, changed from item where id = 10") == [("TEN", 1)]
    await pair.execute("savepoint a")
    await pair.execute("update item set name = name || 'x' where id = 10")
    assert await pair.execute("select name, changed from item where id = 10") == [("TENX", 2)]
    await pair.execute("rollback to a")
    await pair.execute("update item set name = name || 'y' where id = 10")
    await pair.commit()

    assert await pair.topology.execute("pub", "select name, changed from item where id = 10") == [
        ("TENY", 2)
    ]
    await pair.same("item")


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
async def test_what_comes_back_is_read_as_it_was_printed(
    make_topology: MakeTopology, make_pair: MakePair, shipping: str
) -> None:
    """Returned values are read as they were printed, whatever the settings of the application's session."""
    kind = "xml" if await has_xml(await make_topology(subscribers=(), distribute=False)) else "text"
    pair = await make_pair(
        f"create table item (id int primary key, parts text[], span interval, doc {kind});"
        "create function fill() returns trigger language plpgsql as $$ begin"
        "    new.parts := array['NULL', null]; new.span := '-1 mon 2 days -03:00';"
        "    new.doc := '<b/>text'; return new; end $$;"
        "create trigger fill before insert on item for each row execute function fill()",
        publish=["item"],
    )
    for name, value in ODD_SETTINGS.items():
        await pair.execute(f"set {name} = {value}")

    await pair.run("insert into public.item values (1)", shipping=shipping)

    await pair.same("item")


async def test_no_trigger_fires_for_what_comes_back(make_pair: MakePair) -> None:
    """Neither our triggers nor a user's treat returned values as a change made by the application."""
    pair = await make_pair(
        STAMPED,
        publish=["item"],
        user_triggers=[
            "create table seen (op text, name text); grant all on seen to public",
            """
            create function see() returns trigger language plpgsql as $$
            begin insert into seen values (tg_op, new.name); return null; end $$;
            create trigger see after insert or update on item for each row execute function see();
            """,
        ],
    )

    calls = await pair.run("insert into item values (10, 'ten', 10)")

    assert calls == 1
    await pair.same("item")
    assert await pair.topology.execute("sub1", "select * from seen") == [("INSERT", "ten")]


async def test_columns_generated_at_the_publisher_only(make_pair: MakePair) -> None:
    """Values generated only at the Publisher are returned for INSERT and UPDATE, and are in the initial copy."""
    pair = await make_pair(
        "create table box (id int primary key, w int, h int, area int generated always as (w * h) stored);"
        "insert into box values (1, 2, 3)",
        publish=["box"],
        at_subscriber=["create table box (id int primary key, w int, h int, area int)"],
    )
    assert await pair.topology.execute("sub1", "select area from box") == [(6,)]

    await pair.run(
        "insert into box values (2, 5, 5), (3, 6, 6)",
        "update box set w = w + 1",
        "update box set area = 0 where id = 3",
        shipping="lazy",
    )

    assert await pair.topology.execute("sub1", "select id, area from box order by id") == [
        (1, 9), (2, 30), (3, 42),
    ]  # fmt: skip
    await pair.same("box")


async def test_generated_at_both_ends_costs_nothing(make_pair: MakePair) -> None:
    """If a column is generated at both ends, nothing is returned, and lazy shipping stays lazy."""
    pair = await make_pair(
        "create table box (id int primary key, w int, area int generated always as (w * w) stored)",
        publish=["box"],
    )
    await pair.begin(shipping="lazy")
    await pair.execute("insert into box values (1, 2)")
    assert await pair.topology.execute(
        "pub",
        "select count(*) from pg_locks l, pg_class c "
        "where c.oid = l.relation and c.relname = 'box'",
    ) == [(0,)]
    await pair.commit()
    await pair.same("box")


async def test_same_row_changed_again_by_an_after_trigger(make_pair: MakePair) -> None:
    """If an AFTER trigger updates the row for which it fires, the final row is returned."""
    pair = await make_pair(
        "create table doc (id int primary key, body text, words int)",
        trigger(
            "after insert or update of body",
            "doc",
            "update doc set words = cardinality(string_to_array(new.body, ' ')) where id = new.id;",
        ),
        publish=["doc"],
    )

    await pair.run(
        "insert into doc values (1, 'a b c', null), (2, 'a', null)",
        "update doc set body = body || ' d'",
    )

    assert await pair.topology.execute("sub1", "select words from doc order by id") == [(4,), (2,)]
    await pair.same("doc")


@pytest.mark.parametrize(
    ("when", "body", "statement"),
    [
        ("after insert", "update other set n = n + 1;", "insert into main values (5, 5)"),
        ("after update", "insert into other values (7, 7);", "update main set n = 5"),
        ("after delete", "delete from other where id = 1;", "delete from main where id = 1"),
        ("before insert", "update other set n = n + 1;", "insert into main values (5, 5)"),
        ("after insert", "update main set n = 0 where id = 1;", "insert into main values (5, 5)"),
        ("after update", "delete from main where id = 2;", "update main set n = 5 where id = 1"),
        ("after delete", "update main set n = 0 where id = 2;", "delete from main where id = 1"),
        ("after insert", "insert into middle values (new.id);", "insert into main values (5, 5)"),
    ],
)
async def test_other_rows_that_a_trigger_changes_are_refused(
    make_pair: MakePair, when: str, body: str, statement: str
) -> None:
    """A trigger's changes of other published rows are refused, because the Subscriber would not receive them."""
    if when.startswith("before"):
        body += " if tg_op = 'INSERT' then return new; end if;"
    pair = await make_pair(
        "create table main (id int primary key, n int); create table other (id int primary key, n int);"
        "insert into main values (1, 1), (2, 2); insert into other values (1, 1)",
        # an unpublished table between them
        "create table middle (id int);"
        + trigger("after insert", "middle", "update other set n = 9;", name="pass_on"),
        trigger(when, "main", body, name="meddle"),
        publish=["main", "other"],
    )
    tables = ("main", "other")
    before = [await pair.rows(f"select * from {table} order by id") for table in tables]

    error = await pair.refused(statement)

    assert error.sqlstate == "09000"
    name = "pass_on of table middle" if "middle" in body else "meddle of table main"
    assert f"trigger {name}" in str(error)
    assert ("published table other" if "main" not in body else "published table main") in str(error)
    assert [await pair.rows(f"select * from {table} order by id") for table in tables] == before


async def test_rows_of_one_statement_may_touch_each_other(make_pair: MakePair) -> None:
    """A trigger may change other rows of the same statement, because all of them are returned."""
    pair = await make_pair(
        "create table main (id int primary key, n int); insert into main values (1, 1), (2, 2), (3, 3)",
        trigger(
            "after update",
            "main",
            "if pg_trigger_depth() = 1 then update main set n = n + 100 where id in (1, 2); end if;",
        ),
        publish=["main"],
    )
    await pair.run("update main set n = 0 where id in (1, 2)")
    await pair.same("main")
    error = await pair.refused("update main set n = 0 where id = 1")
    assert error.sqlstate == "09000"


@pytest.mark.parametrize("kind", ["ins", "upd"])
async def test_a_trigger_that_changes_the_key_is_refused(make_pair: MakePair, kind: str) -> None:
    """A trigger that changes the key is refused, because the Subscriber's row could no longer be identified."""
    pair = await make_pair(
        """
        create table code (code text primary key, n int);
        insert into code values ('A', 1);
        create function up() returns trigger language plpgsql as $$
        begin new.code := upper(new.code); return new; end $$;
        create trigger up before insert or update on code for each row execute function up();
        """,
        publish=["code"],
    )
    statement = (
        "insert into code values ('b', 2)" if kind == "ins" else "update code set code = 'b'"
    )

    error = await pair.refused(statement)

    assert error.sqlstate == "09000"
    assert "another key" in str(error)
    await pair.same("code")


async def test_changes_of_unpublished_tables_are_the_publishers_own(make_pair: MakePair) -> None:
    """A trigger may write to an audit table that is not published."""
    pair = await make_pair(
        "create table main (id int primary key, n int); create table audit (op text, id int)",
        trigger(
            "after insert or update or delete",
            "main",
            "insert into audit values (tg_op, coalesce(new.id, old.id));",
        ),
        publish=["main"],
    )
    await pair.run(
        "insert into main values (1, 1), (2, 2)", "update main set n = 3", "delete from main"
    )
    await pair.same("main")
    assert await pair.topology.execute("pub", "select count(*) from audit") == [(6,)]


async def test_a_trigger_without_the_rights_it_needs(make_pair: MakePair) -> None:
    """Triggers run as the table's role; if it lacks a privilege, the error names the role, and GRANT helps."""
    pair = await make_pair(
        "create table main (id int primary key, n int); create table audit (op text, id int)",
        trigger("after insert", "main", "insert into audit values (tg_op, new.id);", rights=""),
        publish=["main"],
    )
    error = await pair.refused("insert into main values (1, 1)")
    assert error.sqlstate == "42501"
    assert "audit" in str(error)
    role = names.table_role(owner_role(pair.topology.node("pub").database), "public", "main")
    assert role in str(error.diag.message_hint)

    await pair.topology.execute("pub", f"grant insert on audit to {role}")
    await pair.run("insert into main values (1, 1)")
    await pair.same("main")


async def test_the_publishers_own_transactions_are_not_watched(make_pair: MakePair) -> None:
    """A trigger may change any rows if no Subscriber is involved."""
    pair = await make_pair(
        "create table main (id int primary key, n int); create table other (id int primary key, n int);"
        "insert into other values (1, 1)",
        trigger("after insert", "main", "update other set n = n + 1;"),
        publish=["main", "other"],
    )
    await pair.topology.execute("pub", "insert into main values (1, 1)")
    assert await pair.topology.execute("pub", "select n from other") == [(2,)]


async def test_what_an_exception_block_takes_back_was_not_changed(make_pair: MakePair) -> None:
    """A change that a trigger's exception block rolls back does not count as a change."""
    pair = await make_pair(
        "create table main (id int primary key, n int); insert into main values (1, 1), (2, 2)",
        trigger(
            "after update",
            "main",
            """
            begin
                if pg_trigger_depth() = 1 then
                    update main set n = 0 where id = 2;
                    raise division_by_zero;
                end if;
            exception when division_by_zero then null;
            end;
            """,
        ),
        publish=["main"],
    )
    await pair.run("update main set n = 9 where id = 1")
    await pair.same("main")


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
async def test_with_foreign_keys(make_pair: MakePair, shipping: str) -> None:
    """Values of held rows are returned as well."""
    pair = await make_pair(
        """
        create table p (id int primary key, n int);
        create table c (id int primary key, p int references p on update cascade on delete set null, n int);
        insert into p values (1, 1), (2, 2);
        insert into c values (11, 1, 1), (12, 1, 1), (21, 2, 2);
        create function count_up() returns trigger language plpgsql as $$
        begin new.n := new.n + 1; return new; end $$;
        create trigger count_up before insert or update on c for each row execute function count_up();
        create trigger count_up before update on p for each row execute function count_up();
        """,
        publish=["p", "c"],
    )
    await pair.run(
        "update p set id = id + 100",
        "update c set n = 0 where id = 11",
        "with new as (insert into p values (5, 5)) insert into c values (51, 5, 0)",
        "delete from p where id = 102",
        shipping=shipping,
    )
    await pair.equal("p", "c")


async def test_values_come_back_unchanged(make_pair: MakePair) -> None:
    """Values whose text depends on settings are returned unchanged."""
    pair = await make_pair(
        """
        create table v (id int primary key, ts timestamptz, i interval, f float8, b bytea, a text[], j json,
                        d date, n numeric, nothing text);
        create function fill() returns trigger language plpgsql as $$
        begin
            new.ts := '2024-02-03 04:05:06.789+02'; new.i := '1 year 2 days 03:04:05';
            new.f := 0.1::float8 + 0.2; new.b := '\\x00ff27'; new.a := array['a"b', null, '', 'c\\d'];
            new.j := '{"a" :  1}'; new.d := '2024-02-03'; new.n := 1.50;
            return new;
        end $$;
        create trigger fill before insert or update on v for each row execute function fill();
        """,
        publish=["v"],
    )
    await pair.app.execute("set datestyle = 'SQL, DMY'; set intervalstyle = 'sql_standard';"
                           "set extra_float_digits = 0; set timezone = 'Asia/Tokyo'; set bytea_output = 'escape'")  # fmt: skip
    await pair.run("insert into v (id) values (1), (2)", "update v set n = 2")
    await pair.same("v")


async def test_ten_thousand_rows(make_pair: MakePair) -> None:
    """Ten thousand rows are returned at once."""
    pair = await make_pair(STAMPED, publish=["item"])
    await pair.run("insert into item select g, 'x', g from generate_series(100, 10099) as g")
    assert len(await pair.same("item")) == 10005


async def test_rights_for_writing_back_are_the_owners(make_pair: MakePair) -> None:
    """Only the owner of our functions may set session_replication_role, and it cannot log in."""
    pair = await make_pair(STAMPED, publish=["item"])
    role = pair.topology.node("sub1").app_role
    found: Sequence[tuple[object, ...]] = await pair.topology.execute(
        "sub1",
        "select has_parameter_privilege(%s, 'session_replication_role', 'set')",
        (role,),
    )
    assert found == [(False,)]
    await _refused(pair, "set session_replication_role = replica")
    await _refused(pair, "select msrepl.trg_mssync_back_item('[]')")


async def _refused(pair: Pair, statement: str) -> None:
    error = await pair.fails(statement)
    assert error.sqlstate == "42501"


async def test_trigger_on_a_table_that_only_a_referential_action_reaches(
    make_pair: MakePair,
) -> None:
    """Changes by a trigger of an unpublished child are detected, even if only a referential action fires it."""
    pair = await make_pair(
        """
        create table main (id int primary key); create table other (id int primary key, n int);
        create table unpublished (main_id int references main on delete cascade);
        insert into main values (1), (2); insert into other values (1, 1); insert into unpublished values (1);
        """,
        trigger("after delete", "unpublished", "update other set n = n + 1;", name="far"),
        publish=["main", "other"],
    )
    error = await pair.refused("delete from main where id = 1")
    assert error.sqlstate == "09000"
    assert "trigger far of table unpublished" in str(error)
    await pair.run("delete from main where id = 2")
    await pair.equal("main", "other")


async def test_many_rows_changed_again(make_pair: MakePair) -> None:
    """Rows that an AFTER ROW trigger updates again are returned, also if there are 3,000 of them."""
    pair = await make_pair(
        "create table doc (id int primary key, n int)",
        trigger("after insert", "doc", "update doc set n = new.id where id = new.id;"),
        publish=["doc"],
    )
    await pair.run("insert into doc select g, 0 from generate_series(1, 3000) as g")
    assert len(await pair.same("doc")) == 3000
    assert await pair.topology.execute("pub", "select count(*) from msrepl.touched_row") == [(0,)]


HIDDEN = {
    "every row": "alter table item enable row level security",
    "some rows": "create policy small on item using (id < 12); alter table item enable row level security",
    "a trigger": """
        create function keep() returns trigger language plpgsql as $$
        begin return case when new.id < 12 then new end; end $$;
        create trigger keep before update on item for each row execute function keep();
        alter table item enable replica trigger keep;
    """,
}


@pytest.mark.parametrize("why", HIDDEN)
async def test_what_cannot_be_taken_over_is_refused(make_pair: MakePair, why: str) -> None:
    """If row security or a trigger keeps returned values from being stored, the change is refused at both sites."""
    pair = await make_pair(STAMPED, publish=["item"], distribute=True)
    node = pair.topology.node("sub1")
    await pair.topology.execute("sub1", f'alter role "{node.agent_role}" bypassrls')
    await pair.topology.execute("sub1", HIDDEN[why])
    await pair.topology.execute(
        "sub1", f'create policy app on item to "{node.app_role}" using (true)'
    )
    await pair.topology.regenerate("item")
    role = names.table_role(owner_role(node.database), "public", "item")
    await pair.topology.execute("sub1", f'alter role "{role}" nobypassrls')

    error = await pair.refused(
        "insert into item select g, 'many', g from generate_series(10, 19) as g"
    )

    assert "10 rows of item" in str(error)
    assert role in str(error.diag.message_hint)
    assert len(await pair.same("item")) == 5


async def test_nothing_is_activated_before_all_of_it_fits(make_pair: MakePair) -> None:
    """While agents cannot see a table's rows, regenerating is refused, and its triggers stay stale."""
    pair = await make_pair(STAMPED, publish=["item"], distribute=True)
    node = pair.topology.node("sub1")
    await pair.topology.execute("sub1", "alter table item enable row level security")
    with pytest.raises(SubscriptionError, match="BYPASSRLS"):
        await pair.topology.regenerate("item")

    error = await pair.refused("delete from item where id = 1")
    assert "regenerate" in str(error.diag.message_hint)
    await pair.topology.execute("sub1", f'alter role "{node.agent_role}" bypassrls')
    await pair.topology.regenerate("item")
