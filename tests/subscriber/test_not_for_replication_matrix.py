"""NOT FOR REPLICATION per object: which triggers fire and which constraints apply, to applications and agents."""

from __future__ import annotations

import psycopg
import pytest

from tests.fix_topology import MakePair, Pair
from twopc.errors import SubscriptionError
from twopc.subscriber import not_for_replication as nfr

AT_PUBLISHER = """
create table parent (id int primary key, n int);
create table child (id int primary key, parent_id int, act_id int, n int, u int, d int, x int);
create table part (id int primary key, n int) partition by range (id);
create table part_1 partition of part for values from (0) to (100);
insert into parent values (1, 1), (2, 2), (3, 3);
insert into child values (1, 1, 1, 1, 1, 1, 1), (2, 2, 1, 2, 2, 2, 2), (3, null, 3, 3, 3, 3, 3);
insert into part values (1, 1);
"""
#: The Subscriber's tables have constraints that the Publisher's do not, so that the Publisher does
#: not refuse violations.
AT_SUBSCRIBER = """
create table parent (id int primary key, n int);
create table child (
    id int generated always as identity (start 500) primary key,
    parent_id int constraint referring references parent,
    act_id int constraint acting references parent on delete cascade,
    n int constraint positive check (n >= 0),
    u int constraint at_once unique,
    d int constraint late unique deferrable,
    x int, constraint apart exclude (x with =) deferrable);
create table part (id int primary key, n int) partition by range (id);
create table part_1 partition of part for values from (0) to (100);
alter table part add constraint of_part foreign key (n) references parent;
"""
USER_TRIGGERS = """
create table seen (what text);
grant all on seen to public;
create function see() returns trigger language plpgsql as $$
begin insert into seen values (tg_argv[0]); return null; end $$;
create trigger seeing after update on child for each row execute function see('trigger');
create trigger seeing_of_agents after update on child for each row execute function see('trigger of agents');
create trigger seeing_part after update on part for each statement
execute function see('trigger of a partitioned table');
alter table child enable replica trigger seeing_of_agents;
"""

#: Table, object, and the statement for which it fires or which it refuses.
CASES: dict[str, tuple[str, str, str]] = {
    "trigger": ("child", "seeing", "update child set n = 9 where id = 1"),
    "trigger of agents": ("child", "seeing_of_agents", "update child set n = 9 where id = 1"),
    "trigger of a partitioned table": ("part", "seeing_part", "update part set n = 2"),
    "foreign key": ("child", "referring", "update child set parent_id = 99 where id = 3"),
    "foreign key, from its other side": ("child", "referring", "delete from parent where id = 2"),
    "foreign key of a partitioned table": ("part", "of_part", "update part set n = 99"),
    "referential action": ("child", "acting", "delete from parent where id = 3"),
    "CHECK": ("child", "positive", "update child set n = -1 where id = 1"),
    "immediate UNIQUE": ("child", "at_once", "update child set u = 2 where id = 1"),
    "deferrable UNIQUE": ("child", "late", "update child set d = 2 where id = 1"),
    "deferrable EXCLUDE": ("child", "apart", "update child set x = 2 where id = 1"),
}
#: (session, NOT FOR REPLICATION) → the effect. The values for the replica role are
#: PostgreSQL's, as measured.
YES = {
    ("application", True): "yes",
    ("application", False): "yes",
    ("agent", True): "no",
    ("agent", False): "yes",
}
ALWAYS = {("application", False): "yes", ("agent", False): "yes"}
MATRIX = {
    "trigger": YES,
    "trigger of agents": {("application", False): "no", ("agent", False): "yes"},
    "trigger of a partitioned table": YES,
    "foreign key": YES,
    "foreign key, from its other side": YES,
    "foreign key of a partitioned table": YES,
    "referential action": YES,
    "CHECK": ALWAYS,
    "immediate UNIQUE": ALWAYS,
    "deferrable UNIQUE": YES,
    "deferrable EXCLUDE": YES,
}


@pytest.fixture
async def pair(make_pair: MakePair) -> Pair:
    return await make_pair(
        AT_PUBLISHER,
        publish=["parent", "child", "part"],
        at_subscriber=[AT_SUBSCRIBER],
        user_triggers=[USER_TRIGGERS],
    )


async def happens(pair: Pair, session: str, what: str, statement: str) -> str:
    """Return ``yes`` or ``no``: whether a trigger fires, a constraint is checked, or an action is performed."""
    if session == "agent":
        connection = await pair.topology.admin("sub1")
        await connection.execute("begin; set local session_replication_role = replica")
    else:
        connection = pair.app
        await pair.begin()
    try:
        await connection.execute(statement.encode())
        if what.startswith("trigger"):
            query = f"select exists (select from seen where what = '{what}')"
        elif what == "referential action":
            query = "select not exists (select from child where act_id = 3)"
        else:
            return "no"
        row = await (await connection.execute(query.encode())).fetchone()
        return "yes" if row is not None and row[0] else "no"
    except psycopg.errors.IntegrityError:
        return "yes"
    finally:
        if session == "agent":
            await connection.execute("rollback")
        else:
            await pair.rollback()


async def test_the_matrix(pair: Pair) -> None:
    """Each kind of object has the expected effect on applications and agents, with and without NOT FOR REPLICATION."""
    admin = await pair.topology.admin("sub1")
    seen: dict[str, dict[tuple[str, bool], str]] = {}
    for what, (table, name, statement) in CASES.items():
        seen[what] = {}
        # no other object has an effect
        for other in await nfr.not_for_replication(admin, "public", "child"):
            if other.fixed is None:
                await nfr.set_not_for_replication(admin, "public", "child", other.name, True)
        for value in dict.fromkeys(value for _, value in MATRIX[what]):
            await nfr.set_not_for_replication(admin, "public", table, name, value)
            for session in ("application", "agent"):
                if (what, session) == ("foreign key, from its other side", "application"):
                    statement = f"delete from child where act_id = 2 and id <> 2; {statement}"
                seen[what][session, value] = await happens(pair, session, what, statement)
    assert seen == MATRIX


async def test_a_deferrable_unique_key_lets_duplicates_through_silently(
    pair: Pair,
) -> None:
    """If a deferrable unique key is NOT FOR REPLICATION, an agent can commit two rows with the same value."""
    admin = await pair.topology.admin("sub1")
    duplicate = (
        "begin; set local session_replication_role = replica;"
        "update child set d = 2 where id = 1; commit"
    )
    await admin.execute(duplicate)
    count = "select count(*) from child where d = 2"
    assert await pair.topology.execute("sub1", count) == [(2,)]

    await admin.execute("set session_replication_role = replica; update child set d = id")
    await admin.execute("reset session_replication_role")
    await nfr.set_not_for_replication(admin, "public", "child", "late", False)
    with pytest.raises(psycopg.errors.UniqueViolation):
        await admin.execute(duplicate)
    await admin.execute("rollback")
    assert await pair.topology.execute("sub1", count) == [(1,)]


@pytest.mark.parametrize("kind", ["always", "by default"])
async def test_identity_columns_take_what_agents_bring(make_pair: MakePair, kind: str) -> None:
    """Agents can insert values into identity columns, without a change of their sequences."""
    pair = await make_pair(
        "create table t (id int primary key, n int)",
        publish=["t"],
        at_subscriber=[
            f"create table t (id int generated {kind} as identity primary key, n int)",
        ],
    )
    admin = await pair.topology.admin("sub1")
    await admin.execute(
        "begin; set local session_replication_role = replica;"
        "insert into t (id, n) overriding system value values (7, 7), (1, 1); commit"
    )
    assert await pair.topology.execute("sub1", "select id from t order by 1") == [(1,), (7,)]
    assert await pair.topology.execute("sub1", "select last_value, is_called from t_id_seq") == [
        (1, False)
    ]
    listed = {each.name: each for each in await nfr.not_for_replication(admin, "public", "t")}
    assert listed["id"].kind == "identity"
    assert listed["id"].not_for_replication
    with pytest.raises(SubscriptionError, match="is always NOT FOR REPLICATION"):
        await nfr.set_not_for_replication(admin, "public", "t", "id", False)


async def test_listing(pair: Pair) -> None:
    """The list contains every object of the user, and none of ours."""
    admin = await pair.topology.admin("sub1")
    await nfr.set_not_for_replication(admin, "public", "child", "referring", False)
    assert [
        (each.kind, each.name, each.not_for_replication, each.fixed is not None)
        for each in await nfr.not_for_replication(admin, "public", "child")
    ] == [
        ("check", "positive", False, True),
        ("exclude", "apart", True, False),
        ("foreign key", "acting", True, False),
        ("foreign key", "referring", False, False),
        ("identity", "id", True, True),
        ("primary key", "child_pkey", False, True),
        ("trigger", "seeing", True, False),
        ("trigger", "seeing_of_agents", False, True),
        ("unique", "at_once", False, True),
        ("unique", "late", True, False),
    ]


@pytest.mark.parametrize(
    ("table", "name", "value", "message"),
    [
        ("nowhere", "x", True, "nowhere is not subscribed to"),
        ("child", "nothing", True, r"has no trigger, constraint or identity column 'nothing'; it has"),
        ("child", "positive", True, "check 'positive' of table child cannot be NOT FOR REPL.*a trigger"),
        ("child", "at_once", True, "unique 'at_once' of table child cannot be NOT FOR REPL.*DEFERRABLE"),
        ("child", "seeing_of_agents", True, "ENABLE REPLICA, for agents only"),
        ("child", "!trg_mssync_ins_child", False, "has no trigger"),
    ],
)  # fmt: skip
async def test_refused(pair: Pair, table: str, name: str, value: bool, message: str) -> None:
    """A refusal names the available objects, or the reason."""
    admin = await pair.topology.admin("sub1")
    with pytest.raises(SubscriptionError, match=message):
        await nfr.set_not_for_replication(admin, "public", table, name, value)


async def test_the_subscription_goes_on_and_unsubscribing_restores(pair: Pair) -> None:
    """Settings do not make the subscription stale, and unsubscribing restores the state of every trigger."""
    admin = await pair.topology.admin("sub1")
    pattern = (
        "select tgname, tgenabled::text from pg_trigger t join pg_class c on c.oid = t.tgrelid"
        " where c.relnamespace = 'public'::regnamespace and tgname !~ 'mssync' order by 1"
    )
    before = await pair.topology.execute("sub1", pattern)
    for table, name in (("child", "seeing"), ("child", "referring"), ("child", "late"),
                        ("part", "of_part"), ("part", "seeing_part")):  # fmt: skip
        await nfr.set_not_for_replication(admin, "public", table, name, False)
    assert await pair.topology.execute("sub1", pattern) != before
    await nfr.set_not_for_replication(admin, "public", "child", "late", True)

    await pair.run("update child set n = 7 where id = 1", "update part set n = 3")
    await pair.equal("child", "part")
    await pair.app.close()
    await pair.topology.unsubscribe("sub1")
    assert await pair.topology.execute("sub1", pattern) == before
