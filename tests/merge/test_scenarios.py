"""Merge scenarios on servers: sessions, conflicts, faults, and the detection of lost changes."""

from __future__ import annotations

import asyncio

import pytest

from tests.agreement.test_catalogue import on_model
from twopc.sim.checkers import nothing_lost
from twopc.sim.report.history import History
from twopc.sim.report.html.facts import facts
from twopc.sim.report.recorded_orders import played
from twopc.sim.report.story import story
from twopc.sim.report.timeline import timeline
from twopc.sim.scenario.agree import compare
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.model_check import unknown
from twopc.sim.scenario.postgres_theatre import PostgresTheatre
from twopc.sim.scenario.run import RunVerdict, run
from twopc.sim.scenario.values import Cell, Selection

FILE = """
twopc: 1
name: sessions
about: One row, two Subscribers, one of which has a priority.
topology: {replication: merge, publisher: pub, subscribers: [anna, ben]}
tables:
  t:
    columns: {id: int primary key, n: int check (n < 9)}
    rows: [{id: 1, n: 0}, {id: 2, n: 0}]
subscribers: {anna: {merge: {type: server, priority: 75}}}
sessions:
  a:
    node: anna
    steps:
      - a_write: {sql: "update t set n = 1 where id = 1"}
      - a_key: {sql: "update t set id = 3 where id = 1"}
      - a_sync: sync
      - a_again: sync
  b:
    node: ben
    steps:
      - b_begin: begin
      - b_write: {sql: "update t set n = 2 where id = 1"}
      - b_end: commit
      - b_gone: {sql: "delete from t where id = 1"}
      - b_sync: sync
  other:
    node: ben
    steps:
      - o_sync: sync
faults:
  - {id: dies, at: merge.upload_applied(anna), do: crash agent anna}
  - {id: rests, at: merge.upload_read(ben), do: pause agent ben}
orders:
"""


def scenario(orders: str):
    return parse(FILE + orders)


async def play(server, loaded) -> tuple[RunVerdict, History]:
    history = History()
    async with PostgresTheatre(server=server) as theatre:
        return await run(loaded, theatre, history), history


ORDERS = """
  - name: a session that dies is resumed
    faults: [dies]
    steps: [a_write, a_sync, a_again]
    expect:
      steps: {a_sync: {error: 08006}, a_again: {uploaded: 0, resumed: true}}
      conflicts: []
  - name: a change behind the back of a session is deferred
    steps: [a_write, a_sync, b_begin, b_write, {sync: ben}, b_end, b_sync]
    expect:
      steps: {b_sync: {conflicts: 1, downloaded: 1, deferred: 0}}
      conflicts: [{table: t, key: {id: 1}, type: update_update, winner: anna, loser: {n: 2}}]
      tables: {t: {everywhere: [{id: 1, n: 1}, {id: 2, n: 0}]}}
  - name: a deletion that loses
    steps: [a_write, a_sync, b_gone, b_sync]
    expect:
      conflicts: [{table: t, key: {id: 1}, type: update_wins, winner: anna, loser: null}]
  - name: a deletion that wins
    steps: [b_gone, b_sync, a_write, a_sync]
    expect:
      steps: {a_sync: {conflicts: 1}}
      conflicts: [{table: t, key: {id: 1}, type: delete_wins, winner: ben, loser: {n: 1}}]
  - name: a key that was changed before the losing row
    steps: [a_key, a_sync, b_begin, b_write, b_end, b_sync]
    expect:
      conflicts: [{table: t, key: {id: 3}, type: update_update, winner: anna, loser: {id: 1, n: 2}}]
  - name: a key that was changed after the losing row
    steps: [b_begin, b_write, b_end, a_key, a_sync, b_sync]
    expect:
      conflicts: [{table: t, key: {id: 3}, type: update_update, winner: anna, loser: {id: 1, n: 2}}]
  - name: an agent that rests keeps others out
    steps: [{fault: rests}, b_begin, b_write, b_end, b_sync, o_sync]
    expect: {steps: {b_sync: {uploaded: 1}, o_sync: {error: 21036}}}
"""


async def test_sessions_conflicts_and_faults(server) -> None:
    verdict, history = await play(server, scenario(ORDERS))
    assert [failure.message for order in verdict.orders for failure in order.failures] == []
    waited = [record.wait["lock"] for record in history.records if record.kind == "blocked"]
    assert waited[-1] == "the agent of ben, which is stopped"
    assert_reported(history)
    _, mine = await asyncio.to_thread(on_model, scenario(ORDERS))
    assert [
        each.text("PostgreSQL", "the model") for each in compare(history.records, mine.records)
    ] == []


def test_the_same_seed_is_the_same_history_in_virtual_time() -> None:
    """The same seed gives the same history, byte by byte, and no order fails."""
    plays = [on_model(scenario(ORDERS), Selection(seed=7)) for _ in range(2)]
    assert [each.failures for verdict, _ in plays for each in verdict.orders if each.failures] == []
    first, second = ([record.line() for record in history.records] for _, history in plays)
    assert first == second


def assert_reported(history: History) -> None:
    """Assert that timeline, story and page report the rows and conflicts of sessions."""
    order = next(each for each in played(history.records) if each.name == "a deletion that wins")
    conflict = "t {id: 1}: delete_wins, ben has won, {id: 1, n: 1} of anna is kept"
    texts = [entry.text for entry in timeline(order.fold).entries]
    assert "a_sync: sync ✓ ↑0 ↓1, 1 conflict" in texts
    assert f"✗ {conflict}" in texts
    assert {
        "anna closes generation 1 → pub ✓",
        "pub closes generation 2, generations 1 to 2 → anna ✓",
        "pub's generation 2 → ben ✓",
    } <= {*texts}
    stood = "brought: {anna: 1}, held: {ben: 1}"
    why = "ben wins: priority 75 of anna is not higher than 100 of what pub has accepted of ben"
    assert texts.index(why) == texts.index(stood) + 1 == texts.index(f"✗ {conflict}") + 2
    told = story(order.fold)
    assert (
        "By a's a_sync the merge session of anna brings no rows up and 1 row down (1 conflict)."
        in told
    )
    assert f"It records a conflict: {conflict}." in told
    assert "pub closes generation 2; anna receives generations 1 to 2 and acknowledges." in told
    stands = "The row that anna brings stands on {anna: 1}, that of pub on {ben: 1}: neither has seen the other's change."
    assert told.index(f"{why}.") == told.index(stands) + 1
    page = str(facts(order))
    assert "<summary>1 conflict</summary>" in page
    assert "the change of anna lost against ben" in page
    assert "priority 75 of anna is not higher than 100 of what pub has accepted of ben" in page
    assert "anna closes generation 1, which pub receives and acknowledges" in page
    died = next(each for each in played(history.records) if "dies" in each.name)
    texts = [entry.text for entry in timeline(died.fold).entries]
    assert "anna closes generation 1, a part of generation 1 → pub" in texts
    assert "anna's generation 1 → pub ✓" in texts


WRONG = """
  - name: sessions and conflicts are compared
    steps: [a_write, a_sync, b_write, b_sync]
    expect:
      steps: {a_sync: {uploaded: 2}, b_sync: {conflicts: 0, resumed: true}}
      conflicts: [{table: t, key: {id: 1}, type: delete_wins, winner: ben}]
  - name: none was expected
    steps: [a_write, a_sync, b_gone, b_sync]
    expect: {conflicts: []}
"""


async def test_what_came_otherwise_is_named_with_its_place(server) -> None:
    verdict, _ = await play(server, scenario(WRONG))
    messages = [failure.message for order in verdict.orders for failure in order.failures]
    lost = "update_update of t {id: 1} won by anna, losing {id: 1, n: 2}"
    gone = "update_wins of t {id: 1} won by anna, losing a deletion"
    assert messages == [
        "a_sync: expected 2 rows uploaded, got 1 row uploaded",
        "b_sync: expected 0 conflicts, got 1 conflict",
        "b_sync: expected resumed, got not resumed",
        f"conflicts: delete_wins of t {{id: 1}} won by ben is missing; recorded: {lost}",
        f"conflicts: {gone} was not expected; recorded: {gone}",
    ]


@pytest.mark.parametrize("changes", [{}, {"merge_conflict": ()}])
async def test_a_change_without_a_trace_is_lost(server, changes) -> None:
    """A change that lost is reported as lost only if the history has no record of the conflict."""
    order = "  - {name: one, steps: [a_write, a_sync, b_write, b_sync]}\n"
    _, history = await play(server, scenario(order))
    records = [each for each in history.records if each.kind not in changes]
    text = "t id=1: n = 2 at ben is neither in the row nor kept with a conflict"
    assert nothing_lost(records) == ([text] if changes else [])


def test_what_the_model_does_not_know_is_refused_by_name() -> None:
    document = parse(
        (FILE + "  - {name: one, steps: [a_write]}\n")
        .replace("n: int check", "n: int4range, m: int check")
        .replace("n < 9", "m < 9")
        .replace(", n: 0}", "}")
    )
    assert [message for _, message in unknown(document.scenario, Cell())] == [
        "the model does not know the type INT4RANGE"
    ]


REPUBLISHED = """
twopc: 1
name: republished
about: Two nodes enter the same mail. The file names the van before the depot that it subscribes to.
topology: {replication: merge, publisher: pub, subscribers: [van, depot], republishers: {depot: [van]}}
tables: {member: {columns: {id: int primary key, mail: text unique}}}
subscribers: {depot: {merge: {type: server, priority: 75}}}
sessions:
  v: {node: van, steps: [v_joins: {sql: "insert into member values (3, 'kim')"}, v_sync: sync]}
  d: {node: depot, steps: [d_joins: {sql: "insert into member values (2, 'kim')"}]}
orders:
  - {name: both, steps: [v_joins, d_joins, v_sync]}
"""


async def test_conflicts_of_a_session_are_listed_in_the_order_of_their_recording(server) -> None:
    """Those of an upload come before those of the download, whatever the file's order of nodes."""
    loaded = parse(REPUBLISHED)
    _, servers = await play(server, loaded)
    _, model = await asyncio.to_thread(on_model, loaded)
    for history in (servers, model):
        listed = [each.data or {} for each in history.records if each.kind == "merge_conflict"]
        assert [(each["node"], each["type"]) for each in listed[:2]] == [
            ("depot", "upload_insert_failed"),
            ("van", "download_insert_failed"),
        ]


MADE = """
twopc: 1
name: made
about: Columns that nodes compute, and keys that the Publisher makes.
topology: {replication: merge, publisher: pub, subscribers: [anna, ben]}
tables:
  t:
    columns:
      id: int generated by default as identity primary key
      a: int
      s: int generated always as (a + b) stored
      b: int
    merge: {tracking: TRACKING}
    rows: [{id: 11, a: 0, b: 0}, {id: 12, a: 0, b: 0}]
sessions:
  a:
    node: anna
    steps:
      - a_one: {sql: "update t set a = 1 where id = 11"}
      - a_two: {sql: "update t set a = 5 where id = 12"}
      - a_new: {sql: "insert into t (a, b) values (3, 3)"}
      - a_named: {sql: "insert into t (id, a, b) values (3, 3, 3)"}
      - a_sync: sync
  b:
    node: ben
    steps:
      - b_one: {sql: "update t set b = 2 where id = 11"}
      - b_two: {sql: "update t set a = 6 where id = 12"}
      - b_sync: sync
orders:
  - name: met
    steps: [a_one, b_one, a_two, b_two, a_new, a_named, a_sync, b_sync]
    expect:
      steps: {a_new: {error: 23502}}
      conflicts: CONFLICTS
      tables: {t: {everywhere: [{id: 3, a: 3, s: 6}, {id: 11, a: 1, s: SUM}, {id: 12, a: 5, s: 5}]}}
"""


@pytest.mark.parametrize(
    ("tracking", "conflicts", "total"),
    [
        ("column", "[{table: t, key: {id: 12}, type: update_update_column, loser: {a: 6}}]", "3"),
        (
            "row",
            "[{table: t, key: {id: 11}, type: update_update, loser: {b: 2}},"
            " {table: t, key: {id: 12}, type: update_update, loser: {a: 6}}]",
            "1",
        ),
    ],
)
async def test_computed_columns_do_not_travel_and_keys_are_named_at_subscribers(
    server, tracking, conflicts, total
) -> None:
    """Changes of a computed column's bases do not conflict in it, on servers and the model."""
    text = MADE.replace("TRACKING", tracking).replace("CONFLICTS", conflicts).replace("SUM", total)
    verdict, history = await play(server, parse(text))
    assert [failure.message for order in verdict.orders for failure in order.failures] == []
    other, mine = await asyncio.to_thread(on_model, parse(text))
    assert [failure.message for order in other.orders for failure in order.failures] == []
    assert compare(history.records, mine.records) == []


AWAY = """
  - name: a Subscriber is away
    steps: [a_write, {cut: anna}, a_sync, {restore: anna}, a_again]
    expect: {steps: {a_sync: {error: 08006}, a_again: {uploaded: 1}}}
  - name: the Publisher is away
    steps: [a_write, {cut: pub}, a_sync, {restore: pub}, a_again]
    expect: {steps: {a_sync: {error: 08006}, a_again: {uploaded: 1}}}
  - name: a Subscriber goes away in the middle, and a session there that was idle goes on
    faults: [rests]
    steps: [b_begin, b_write, b_end, b_sync, {cut: ben}, {restore: ben}, b_gone]
    expect: {otherwise: any}
"""


async def test_nodes_that_are_away(server) -> None:
    """A session with an unreachable node ends early, and idle sessions reconnect.

    The model does the same.
    """
    loaded = parse(
        FILE.replace("- b_sync: sync", "").replace(
            "- b_end: commit", "- b_end: commit\n      - b_sync: sync"
        )
        + AWAY
    )
    verdict, history = await play(server, loaded)
    assert [failure.message for order in verdict.orders for failure in order.failures] == []
    gone = [each.kind for each in history.records if each.step == "b_gone"]
    assert gone[-1] == "ok"
    _, mine = await asyncio.to_thread(on_model, loaded)
    assert compare(history.records, mine.records) == []
