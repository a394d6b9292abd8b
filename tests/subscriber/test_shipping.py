"""Eager and lazy shipping, separately and together: what is queued, when it is sent, and at which isolation level."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import psutil
import psycopg
import pytest

from tests.fix_link import Eyes
from tests.fix_topology import ACCOUNT, BALANCES, ROWS, MakePair, Pair
from twopc.errors import conflict_facts

pytestmark = [pytest.mark.immediate, pytest.mark.rewinds]

NOTE = "create table note (id int primary key, body text)"

both_ways = pytest.mark.parametrize("shipping", ["eager", "lazy"])


async def has_sent(pair: Pair, eyes: Eyes) -> bool:
    """Return whether the Publisher has an open transaction with changes of this one."""
    link = eyes.link(pair)
    return link is not None and link.writes


async def test_eager_sends_each_statement_at_once(pair: Pair, eyes: Eyes) -> None:
    """With eager shipping, the Publisher has the change before the statement returns."""
    await pair.begin()
    await pair.execute("update account set balance = 1 where id = 1")
    assert await has_sent(pair, eyes)
    assert await pair.commit() == 1


async def test_lazy_sends_nothing_before_the_vote(pair: Pair, eyes: Eyes) -> None:
    """With lazy shipping, not even the link is opened, and a rollback leaves nothing to reset."""
    await pair.begin(shipping="lazy")
    for statement in (
        "update account set balance = 1 where id = 1",
        "delete from account where id = 2",
        "insert into account values (9, 9)",
        "update account set balance = balance + 1 where id = 1",
    ):
        await pair.execute(statement)
    assert eyes.link(pair) is None
    assert await pair.commit() == 1  # one message
    there, _ = await pair.rows(BALANCES)
    assert there == [(1, 2), (3, 100), (4, 100), (5, 100), (9, 9)]
    await pair.same("account")

    await pair.begin(shipping="lazy")
    await pair.execute("update account set balance = 3 where id = 3")
    await pair.execute("rollback")
    link = eyes.open_link(pair)
    assert link.state == "idle"
    await pair.same("account")


async def test_the_queue_is_out_of_the_applications_reach(make_pair: MakePair) -> None:
    """Queued calls are stored in a table that the application cannot access, and not in a setting."""
    pair = await make_pair(NOTE, publish=["note"])
    await pair.begin(shipping="lazy")
    await pair.app.execute("insert into note values (1, %s)", ("what-waits",))
    await pair.execute("savepoint a")
    for statement in (
        "select pending from msrepl.branch_marker",
        "update msrepl.branch_marker set pending = null",
        "delete from msrepl.branch_marker",
        "select msrepl.flush()",
    ):
        assert (await pair.fails(statement)).sqlstate == "42501", statement
        await pair.execute("rollback to a")
    settings = await pair.execute("select name, setting from pg_settings")
    assert "what-waits" not in str(settings)
    assert "what-waits" not in str(await pair.execute("show msrepl.marker"))
    await pair.commit()
    await pair.same("note")


async def test_a_queue_that_has_grown_long_is_sent(make_pair: MakePair, eyes: Eyes) -> None:
    """A queue of 16 kB is sent; later calls are queued again, and all belong to one branch."""
    pair = await make_pair(NOTE, publish=["note"])
    await pair.begin(shipping="lazy")
    for place in range(7):
        await pair.app.execute("insert into note values (%s, repeat('x', 2500))", (place,))
        sent = await has_sent(pair, eyes)
        assert sent == (place == 6), place
    await pair.execute("insert into note values (100, 'small')")
    await pair.execute("savepoint a")
    await pair.execute("insert into note values (101, repeat('y', 70000))")
    await pair.execute("rollback to a")
    await pair.execute("insert into note values (102, 'last')")
    await pair.commit()
    assert [i for (i,) in (await pair.rows("select id from note order by 1"))[0]] == [
        *range(7), 100, 102,
    ]  # fmt: skip
    await pair.same("note")


async def test_eager_and_lazy_in_one_transaction(pair: Pair, eyes: Eyes) -> None:
    """An eager statement also sends the queued calls, in order."""
    await pair.begin(shipping="lazy")
    await pair.execute("update account set balance = 1 where id = 1")
    assert not await has_sent(pair, eyes)
    await pair.execute("set local msrepl.shipping = 'eager'")
    await pair.execute("update account set balance = balance * 2 where id = 1")
    assert await has_sent(pair, eyes)
    await pair.execute("set local msrepl.shipping = 'lazy'")
    await pair.execute("update account set balance = balance + 40 where id = 1")
    await pair.execute("delete from account where id = 2")
    await pair.execute("set local msrepl.shipping = 'eager'")
    await pair.execute("insert into account values (2, 22)")
    await pair.commit()
    assert (await pair.rows(BALANCES))[0][:2] == [(1, 42), (2, 22)]
    await pair.same("account")


async def test_any_other_word_is_eager(pair: Pair, eyes: Eyes) -> None:
    """An unknown value means eager: a misspelt setting must not change when conflicts are detected."""
    await pair.begin(shipping="Lazy!")
    await pair.execute("update account set balance = 1 where id = 1")
    assert await has_sent(pair, eyes)
    await pair.commit()


@pytest.mark.parametrize("first", ["eager", "lazy"])
@pytest.mark.parametrize("second", ["eager", "lazy"])
async def test_savepoints(pair: Pair, eyes: Eyes, first: str, second: str) -> None:
    """Changes rolled back to a savepoint are neither sent nor queued, with either kind of shipping."""
    await pair.begin(shipping=first)
    await pair.execute("savepoint a")
    await pair.execute("update account set balance = 1 where id = 1")
    await pair.execute("rollback to a")
    await pair.execute("update account set balance = 2 where id = 2")
    await pair.execute("savepoint b")
    await pair.execute(f"set local msrepl.shipping = '{second}'")
    await pair.execute("update account set balance = 3 where id = 3")
    await pair.execute("savepoint c")
    await pair.execute("update account set balance = 4 where id = 2")
    await pair.execute("rollback to c")
    await pair.execute("release b")
    await pair.execute(
        "do $$ begin update account set balance = 5 where id = 5; perform 1 / 0;"
        " exception when division_by_zero then null; end $$"
    )
    await pair.execute("update account set balance = balance + 40 where id = 3")
    await pair.commit()
    there, _ = await pair.rows(BALANCES)
    assert there == [(1, 100), (2, 2), (3, 43), (4, 100), (5, 100)]
    await pair.same("account")


async def test_a_lazy_conflict_surfaces_at_the_vote(pair: Pair, eyes: Eyes) -> None:
    """One stale row among many statements makes the vote fail, and no change is left at either end."""
    await pair.topology.execute("pub", "update account set balance = 50 where id = 3")
    before = await pair.rows(BALANCES)
    await pair.begin(shipping="lazy")
    for key in (1, 2, 3, 4):
        await pair.execute(f"update account set balance = {key} where id = {key}")

    with pytest.raises(psycopg.Error) as caught:
        await pair.prepare()
    await pair.rollback()

    assert caught.value.sqlstate == "40001"
    facts = conflict_facts(caught.value.diag.message_detail)
    assert facts is not None
    assert (facts["kind"], facts["key"]) == ("version_mismatch", {"id": 3})
    assert await pair.rows(BALANCES) == before
    assert eyes.prepared(pair.topology.node("pub").database) == []
    await pair.topology.execute("pub", "select from account for update nowait")
    link = eyes.open_link(pair)
    assert link.state == "idle"


BODIES = [
    "it's", "'; drop table note; --", "''", "\\", "\\'", "E'\\x41'", '"quoted"', "{1,2}", "(a,b)",
    "NULL", "null", "", " ", "$$", "$msrepl$", "$1", "%s", "a;b", "line\nbreak", "tab\t", "\x01\x7f",
    "ünïcödé 日本語 👍", "a,b", '","', "\\\\\"", "--", "/* */", "$query$;select 1$query$",
]  # fmt: skip


@both_ways
async def test_every_kind_of_quoting(make_pair: MakePair, shipping: str) -> None:
    """Values are quoted in a row literal, an array literal, a string literal and possibly the queue."""
    pair = await make_pair(
        "create table note (id int primary key, body text, parts text[], raw bytea, doc jsonb)",
        publish=["note"],
    )
    await pair.begin(shipping=shipping)
    for place, body in enumerate(BODIES):
        await pair.app.execute(
            "insert into note values (%s, %s, %s, %s, jsonb_build_object(%s::text, %s::text))",
            (place, body, [body, None, body * 2], body.encode(), body or "empty", body),
        )
    await pair.app.execute(
        "update note set body = body || %s, parts = parts || %s::text", ("'\\\"$", "{\\")
    )
    await pair.execute("delete from note where id % 7 = 3")
    await pair.commit()

    rows, _ = await pair.rows("select id, body from note order by id")
    assert rows == [(place, body + "'\\\"$") for place, body in enumerate(BODIES) if place % 7 != 3]
    await pair.same("note")


#: Settings that an administrator may have made for the Publisher's database.
ODD_THERE = {
    "datestyle": "'SQL, DMY'",
    "intervalstyle": "'sql_standard'",
    "timezone": "'Asia/Kathmandu'",
    "extra_float_digits": "-10",
    "bytea_output": "'escape'",
    "array_nulls": "off",
    "standard_conforming_strings": "off",
    "transform_null_equals": "on",
    "default_transaction_isolation": "'serializable'",
    "idle_in_transaction_session_timeout": "1",
    "client_min_messages": "debug5",
    "search_path": "''",
}


@both_ways
async def test_odd_settings_of_the_publishers_database(make_pair: MakePair, shipping: str) -> None:
    """The link sets what its messages depend on, whatever the settings of the Publisher's database."""
    pair = await make_pair(
        "create table item (id int generated by default as identity primary key, d date, i interval,"
        " t timestamptz, f float8, raw bytea, parts text[])",
        publish=["item"],
    )
    database = pair.topology.node("pub").database
    for name, value in ODD_THERE.items():
        await pair.topology.execute("pub", f'alter database "{database}" set {name} = {value}')

    await pair.run(
        "insert into item (d, i, t, f, raw, parts) values"
        " ('2024-02-01', '-1 mon 2 days -03:00', '2024-02-01 12:00+05', 0.1 + 0.2, '\\x00275c',"
        "  array['NULL', null, '\\\\', '\"'])",
        "update item set f = f / 3, d = d + 1, parts = parts || null::text",
        shipping=shipping,
    )

    assert len(await pair.same("item")) == 1


@both_ways
@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
async def test_isolation_level_travels(make_pair: MakePair, shipping: str, level: str) -> None:
    """The remote transaction has the application's isolation level, also with a long lazy queue."""
    pair = await make_pair(
        ACCOUNT,
        ROWS,
        "create table seen (level text)",
        """
        create function witness_level() returns trigger language plpgsql security definer as $$
        begin insert into public.seen values (current_setting('transaction_isolation')); return null; end $$
        """,
        "create trigger w after update on account for each statement execute function witness_level()",
        publish=["account"],
    )
    await pair.run(
        "update account set balance = 1 where id = 1",
        "update account set balance = 2 where id = 2",
        shipping=shipping,
        isolation=level,
    )
    seen = await pair.topology.execute("pub", "select level, count(*) from seen group by level")
    assert seen == [(level, 2)]
    await pair.same("account")


async def test_repeatable_read_there_sees_one_moment(pair: Pair) -> None:
    """At REPEATABLE READ, a concurrent commit at the Publisher causes a serialization failure."""
    await pair.begin(isolation="repeatable read")
    await pair.execute("update account set balance = 1 where id = 1")
    await pair.topology.execute("pub", "update account set balance = 50 where id = 2")
    error = await pair.fails("update account set balance = 2 where id = 2")
    await pair.rollback()
    assert error.sqlstate == "40001"


@both_ways
async def test_long_transactions_cost_no_more_per_statement(
    make_pair: MakePair, eyes: Eyes, shipping: str
) -> None:
    """The CPU time per statement does not grow with the length of a transaction.

    1000 statements in one transaction are compared with 1000 in twenty. Neither the queue nor
    savepoints at the Publisher, which would be nested ever deeper, may make a statement more
    expensive than the one before.
    """
    pair = await make_pair(
        ACCOUNT,
        "insert into account select g, 100 from generate_series(1, 1000) g",
        publish=["account"],
    )
    await pair.run("update account set balance = 1 where id = 1")
    link = eyes.open_link(pair)
    backends = [psutil.Process(pid) for pid in (link.pid, pair.app.info.backend_pid)]

    def cpu_s() -> float:
        return sum(sum(backend.cpu_times()[:2]) for backend in backends)

    async def run(transactions: int) -> float:
        began = cpu_s()
        for place in range(transactions):
            await pair.run(
                f"do $$ begin for i in {place} * 1000 / {transactions} + 1"
                f" .. ({place} + 1) * 1000 / {transactions} loop"
                " update account set balance = balance + 1 where id = i; end loop; end $$",
                shipping=shipping,
            )
        return cpu_s() - began

    await run(20)
    short = min([await run(20) for _ in range(2)])
    long = min([await run(1) for _ in range(2)])

    # with nested savepoints, or with a queue packed by each statement, it was 6 to 10 times as much
    assert long < 3 * short, f"{short:.2f} s in short transactions, {long:.2f} s in a long one"
    await pair.same("account")


@dataclass(slots=True)
class Walk:
    """A random transaction: its statements, and the rows expected in the end."""

    draw: random.Random
    balances: dict[int, int] = field(default_factory=dict)
    saved: list[tuple[str, dict[int, int]]] = field(default_factory=list)

    def step(self) -> str:
        """Return the next statement."""
        kind = self.draw.choices(
            [
                "update",
                "savepoint",
                "rollback",
                "release",
                "caught",
                "refused",
                "kept",
                "lazy",
                "eager",
            ],
            [6, 2, 2, 1, 1, 1, 1, 1, 1],
        )[0]
        if kind in ("lazy", "eager"):
            return f"set local msrepl.shipping = '{kind}'"
        if kind == "savepoint":
            name = f"p{len(self.saved)}"
            self.saved.append((name, dict(self.balances)))
            return f"savepoint {name}"
        if kind in ("rollback", "release") and self.saved:
            place = self.draw.randrange(len(self.saved))
            name, balances = self.saved[place]
            if kind == "release":
                del self.saved[place:]
                return f"release {name}"
            del self.saved[place + 1 :]
            self.balances = dict(balances)
            return f"rollback to {name}"
        change, balances = self._change()
        if kind == "refused":
            return (
                f"do $$ begin set local msrepl.shipping = 'eager'; {change};"
                " update account set balance = -7 where id = 1;"
                " exception when check_violation then null; end $$"
            )
        if kind == "caught":
            return f"do $$ begin {change}; perform 1 / 0; exception when division_by_zero then null; end $$"
        self.balances = balances
        if kind == "kept":
            return f"do $$ begin {change}; exception when division_by_zero then null; end $$"
        return change

    def _change(self) -> tuple[str, dict[int, int]]:
        key = self.draw.randint(1, 4)
        balances = dict(self.balances)
        balances[key] = balances[key] * 2 + 1
        return f"update account set balance = balance * 2 + 1 where id = {key}", balances


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", range(12))
async def test_drawn_walks_through_savepoints(make_pair: MakePair, seed: int) -> None:
    """Both ends are equal after random changes and savepoints.

    Changes are rolled back, released, refused by the Publisher and caught, queued or sent.
    """
    pair = await make_pair(
        "create table account (id int primary key, balance int not null check (balance <> -7))",
        "insert into account select g, 0 from generate_series(1, 4) g",
        publish=["account"],
    )
    balances = dict.fromkeys(range(1, 5), 0)
    draw = random.Random(seed)
    for _ in range(4):
        walk = Walk(draw, balances)
        statements = [walk.step() for _ in range(25)]
        await pair.run(*statements, shipping=draw.choice(["eager", "lazy"]))
        balances = {key: value % 1000 for key, value in walk.balances.items()}
        there, here = await pair.rows(BALANCES)
        assert dict(there) == dict(here) == walk.balances, statements
        await pair.run("update account set balance = balance % 1000")
    await pair.same("account")
