"""Custom procedures are called instead of the default ones, and refused where they do not fit."""

from __future__ import annotations

import psycopg
import pytest

from tests.propagation.here import AGENT, Here, mask, propagation
from twopc.errors import SubscriptionError
from twopc.subscriber import propagation as procedures

TABLE = "create table t (id int primary key, name text, n int)"
AUDIT = """
create table audit (at serial, id int, was text, now text);
grant insert on audit to public;
grant usage on sequence audit_at_seq to public;
create procedure audited(old_id int, was text, old_n int, new_id int, now text, new_n int) language plpgsql as $$
begin
    update t set name = now, n = new_n where id = old_id;
    if not found then
        perform msrepl.sp_msreplraiserror(20598);
    end if;
    insert into audit (id, was, now) values (old_id, was, now);
end $$
"""


async def test_one_that_audits(here: Here) -> None:
    """A procedure for XCALL gets both images and can audit changes; its own path finds its tables."""
    await here.subscribe(f"{TABLE}; {AUDIT}", methods={"upd": "XCALL audited"})
    await here.apply("ins", 1, "a", 0)
    await here.apply("upd", 1, "a", 0, 1, "b", 5)
    await here.apply("upd", 1, "b", 5, 1, None, 5)
    assert await here.rows() == [(1, None, 5)]
    assert await here.rows("audit") == [(1, 1, "a", "b"), (2, 1, "b", None)]
    error = await here.fails("upd", 2, "a", 0, 2, "b", 0)
    assert (error.sqlstate, error.diag.message_primary) == (
        procedures.ROW_NOT_FOUND,
        "the row was not found at the Subscriber when applying the replicated command (20598)",
    )
    assert await here.apply_set("upd", [1, None, 5, 1, "c", 5]) == -1


async def test_one_that_does_not_look_for_its_row(here: Here) -> None:
    """A procedure that does not check for its row hides a missing row; the default procedure reports it."""
    await here.subscribe(
        f"""{TABLE};
        create function careless(c1 int, c2 text, c3 int, pkc1 int, bitmap bytea) returns setof int
        begin atomic update t set name = c2 where id = pkc1 returning id; end""",
        methods={"upd": "SCALL careless"},
    )
    await here.apply("ins", 1, "a", 0)
    await here.apply("upd", None, "b", None, 1, mask(3, 2))
    await here.apply("upd", None, "c", None, 2, mask(3, 2))
    assert await here.rows() == [(1, "b", 0)]
    await here.subscribe("select")
    await here.apply("upd", None, "c", None, 1, mask(3, 2))
    error = await here.fails("upd", None, "c", None, 2, mask(3, 2))
    assert "(20598)" in str(error)


async def test_one_that_ends_the_transaction(here: Here) -> None:
    """Transaction control is refused: when subscribing if it is recognised, otherwise by PostgreSQL."""
    committing = "create procedure ends(id int) language plpgsql as $body$ begin {} end $body$"
    await here.admin.execute(TABLE.encode())
    article = await here.article("t")
    for body in ("delete from t where t.id = 1; commit;", "if true then RollBack; end if;"):
        await here.admin.execute(committing.format(body).encode())
        with pytest.raises(
            SubscriptionError, match=r"procedure ends for del of t .*transactions must not be used"
        ):
            await procedures.create(here.admin, article, 7, propagation(dele="CALL ends"), AGENT)
        await here.admin.execute("drop procedure ends")
    # comments and literals are no reason, and hidden transaction control fails when it is called
    hidden = "-- then commit;\n perform 'x; commit;'; execute 'comm' || $x$it;commit;$x$;"
    await here.subscribe(
        f"select; {committing.format(hidden)}", methods={"dele": "CALL public.ends"}
    )
    error = await here.fails("del", 1)
    assert isinstance(error, psycopg.errors.FeatureNotSupported)
    assert "ends" in str(error)
    await here.admin.execute(
        committing.replace("create", "create or replace").format("commit;").encode()
    )
    error = await here.fails("del", 1)
    assert error.sqlstate == "2D000"
    assert "ends(integer)" in str(error.diag.context)


@pytest.mark.parametrize(
    ("made", "named", "said"),
    [
        ("", "mine", r"procedure mine for upd of t \(MCALL\) at 'test_\d+' does not exist in schema public: create "
         r"it with the parameters \(c1 integer, c2 text, c3 integer, pkc1 integer, bitmap bytea\)"),
        ("create function mine(int, text) returns int return 1", "mine",
         r"has the parameters \(integer, text\); this call brings \(c1 integer, c2 text"),
        ("create procedure mine(int, text, int, int, out bytea) begin atomic select ''::bytea; end", "mine",
         r"has the parameters \(.*OUT bytea\); this call brings"),
        ("", "other.mine", r"does not exist in schema other: create it"),
        ("", "a.b.c", "write its name as name or schema.name"),
        ("", '"open', "string is not a valid identifier"),
    ],
)  # fmt: skip
async def test_one_that_is_not_what_is_called(here: Here, made: str, named: str, said: str) -> None:
    """The error names the parameters of the call, and no object remains."""
    await here.admin.execute(f"{TABLE}; {made}".encode())
    article = await here.article("t")
    with pytest.raises(SubscriptionError, match=said):
        await procedures.create(here.admin, article, 7, propagation(upd=f"MCALL {named}"), AGENT)
    left = "to_regtype('msrepl.call_7_upd'), to_regproc('sp_msins_t')"
    cursor = await here.admin.execute(f"select {left}".encode())
    assert await cursor.fetchone() == (None, None)


async def test_names_are_looked_for_beside_the_table(here: Here) -> None:
    """A name is searched in the table's schema, then in public; a quoted name is taken literally."""
    await here.subscribe(
        """
        create schema sales;
        create table sales.t (id int primary key);
        create table called (by text);
        grant insert on called to public;
        create function sales."Mine"(int) returns void begin atomic insert into called values ('sales'); end;
        create function "Mine"(int) returns void begin atomic insert into called values ('public'); end;
        create function elsewhere(int) returns void begin atomic insert into called values ('else'); end;
        """,
        schema="sales",
        methods={"dele": 'CALL "Mine"', "ins": "CALL elsewhere"},
    )
    await here.apply("del", 1)
    await here.apply("ins", 1)
    assert await here.rows("called") == [("else",), ("sales",)]


async def test_more_parameters_than_the_call_has(here: Here) -> None:
    """Further parameters may have defaults, so that one procedure can serve several tables."""
    await here.subscribe(
        f"""{TABLE}; create table called (by text); grant insert on called to public;
        create procedure shared(int, source text default 'replication') begin atomic
            insert into called values (source); end""",
        methods={"dele": "CALL shared"},
    )
    await here.apply("del", 1)
    assert await here.rows("called") == [("replication",)]


async def test_domains_may_be_declared_or_not(here: Here) -> None:
    """A custom procedure may declare a domain or its base type."""
    await here.subscribe(
        """
        create domain inner_code as text check (value <> ''); create domain code as inner_code;
        create table t (id code primary key, n code);
        create function by_domain(code, code) returns void begin atomic insert into t values ($1, $2); end;
        create function by_base(text) returns void begin atomic delete from t where id = $1; end;
        """,
        methods={"ins": "CALL by_domain", "dele": "CALL by_base"},
    )
    await here.apply("ins", "a", None)
    await here.apply("ins", "b", None)
    await here.apply("del", "a")
    assert await here.rows() == [("b", None)]


@pytest.mark.parametrize("upd", ["MCALL", "XCALL"])
async def test_more_values_than_arguments(here: Here, upd: str) -> None:
    """Each image is one argument of a row type, which the procedure's script can name."""
    columns = ", ".join(f"col{n} int" for n in range(2, 121))
    images = "new_row msrepl.image_7, original_key msrepl.key_7, bitmap bytea"
    seen = "(original_key).pkc1, (new_row).c120 - 120, get_byte(bitmap, 14)"
    if upd == "XCALL":
        images = "old_row msrepl.image_7, new_row msrepl.image_7"
        seen = "(old_row).c1, (new_row).c120 - (old_row).c120, -1"
    await here.subscribe(
        f"create table t (col1 int primary key, {columns}); create table seen (k int, d int, b int);"
        "grant insert on seen to public",
        methods={"upd": f"{upd} wide"},
        scripts=[
            f"create procedure wide({images}) language sql as $$ insert into seen select {seen} $$"
        ],
    )
    old = list(range(1, 121))
    new = [*old[:-1], 125]
    await here.apply("ins", *old)
    if upd == "MCALL":
        await here.apply("upd", *new, 1, mask(120, 120))
    else:
        await here.apply("upd", *old, *new)
    assert await here.rows("seen") == [(1, 5, 128 if upd == "MCALL" else -1)]
    await here.admin.execute("create procedure wide(int) language sql as ''")
    await here.admin.execute(f"alter procedure wide({types_of(images)}) rename to other".encode())
    with pytest.raises(
        SubscriptionError, match=r"this call brings \(.*_row \"msrepl\".\"image_7\""
    ):
        await here.subscribe("select", methods={"upd": f"{upd} wide"})


def types_of(arguments: str) -> str:
    """Return the types in a list of names and types."""
    return ", ".join(each.split()[1] for each in arguments.split(", "))


async def test_row_types_follow_the_table(here: Here, caplog: pytest.LogCaptureFixture) -> None:
    """A custom procedure keeps its parameters when its article is regenerated; it is dropped with the subscription."""
    columns = ", ".join(f"col{n} int" for n in range(2, 104))
    wide = """create procedure wide(new_row msrepl.image_7) language plpgsql as $$
        begin insert into seen values ((new_row).c101::text); end $$"""
    await here.subscribe(
        f"create table t (col1 int primary key, {columns}); create table seen (what text);"
        "grant insert on seen to public",
        methods={"ins": "CALL wide"},
        scripts=[wide],
    )
    await here.apply("ins", *range(103))
    await here.subscribe(
        "alter table t alter col103 type text, add col104 date", methods={"ins": "CALL wide"}
    )
    await here.apply("ins", *range(102), "text", "2026-01-01")
    await here.subscribe("alter table t drop col2, drop col3", methods={"ins": "CALL wide"})
    await here.apply("ins", *range(100), "moved", None)
    assert await here.rows("seen") == [("100",), ("100",), ("moved",)]
    assert "custom procedures went" not in caplog.text
    await procedures.drop(here.admin, 7)
    assert "custom procedures went with the row types that they take" in caplog.text
    cursor = await here.admin.execute("select to_regproc('wide'), to_regtype('msrepl.image_7')")
    assert await cursor.fetchone() == (None, None)
