"""Tests of the checkers: each passes and fails on made-up histories."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from twopc.names import VERSION_COLUMN
from twopc.sim.checkers import (
    CHECKS,
    DEFAULTS,
    LAST_SYNC,
    atomic,
    converged,
    each_change_applied_once,
    echoed,
    no_lost_update,
    no_rows,
    prepared_left,
    sums,
    versions_move_forward,
)
from twopc.sim.report.history import HistoryRecord

GID = "twopc:c:1:7"


class Story:
    """A history whose records are numbered as they are added."""

    def __init__(self) -> None:
        self._seq = itertools.count()
        self.records: list[HistoryRecord] = []

    def add(self, kind, **fields):
        seq = next(self._seq)
        self.records.append(HistoryRecord(seq=seq, t_us=seq, kind=kind, **fields))
        return self

    def markers(self, node, *branches, participants=("pub", "sub1"), fence=False, sent=True):
        rows = [
            {"gid": b, "participants": list(participants), "fence": fence, "sent": sent}
            for b in branches
        ]
        return self.add("markers", node=node, data={"markers": rows})

    def state(self, node, *rows, moment="committed"):
        named = [{"id": i, "n": n, VERSION_COLUMN: v} for i, n, v in rows]
        data = {"table": "t", "key": ["id"], "moment": moment}
        return self.add("state", node=node, rows=tuple(named), rowcount=len(named), data=data)


def test_atomic_at_all_participants():
    story = Story().markers("pub", f"{GID}:pub").markers("sub1", f"{GID}:sub1").markers("sub2")
    assert atomic(story.records) == []


def test_atomic_at_one_of_two():
    story = Story().markers("pub", f"{GID}:pub").markers("sub1")
    assert atomic(story.records) == [f"{GID} took effect at pub and not at sub1"]


FIRST = ("pub", "pub/sub2", "sub1", "sub2")
SECOND = ("pub/sub2", "pub", "sub1", "sub2")


def of_two(*, pub=(), sub1=(), sub2=(), sent1=True, sent2=True):
    """Return a history with the markers that a transaction at two Subscribers has left."""
    story = Story().markers("pub")
    for branch in pub:
        story.markers("pub", f"{GID}:{branch}", participants=FIRST if branch == "pub" else SECOND)
    story.markers("sub1", *(f"{GID}:{each}" for each in sub1), participants=FIRST, sent=sent1)
    return story.markers("sub2", *(f"{GID}:{e}" for e in sub2), participants=SECOND, sent=sent2)


@pytest.mark.parametrize(
    "left",
    [
        {"pub": ("pub", "pub/sub2"), "sub1": ("sub1",), "sub2": ("sub2",)},
        {"pub": ("pub",), "sub1": ("sub1",)},
        {"pub": ("pub/sub2",), "sub2": ("sub2",)},
        {"pub": ("pub",), "sub1": ("sub1",), "sub2": ("sub2",), "sent2": False},
        {"sub1": ("sub1",), "sub2": ("sub2",), "sent1": False, "sent2": False},
    ],
    ids=[
        "both write",
        "the second reads",
        "the first reads",
        "the second writes only here",
        "both",
    ],
)
def test_a_part_that_reads_is_not_missed(left):
    assert atomic(of_two(**left).records) == []


@pytest.mark.parametrize(
    ("left", "missing"),
    [
        ({"pub": ("pub", "pub/sub2"), "sub1": ("sub1",)}, "sub2"),
        ({"pub": ("pub", "pub/sub2"), "sub2": ("sub2",)}, "sub1"),
        ({"pub": ("pub",), "sub1": ("sub1",), "sub2": ("sub2",)}, "pub/sub2"),
        ({"pub": ("pub/sub2",), "sub1": ("sub1",), "sub2": ("sub2",)}, "pub"),
        ({"sub1": ("sub1",), "sub2": ("sub2",), "sent1": False}, "pub/sub2"),
    ],
)
def test_a_part_that_writes_is_missed(left, missing):
    (broken,) = atomic(of_two(**left).records)
    assert broken.endswith(f" and not at {missing}")


def test_a_part_that_is_lost_at_both_ends_is_missed():
    story = of_two(pub=("pub",), sub1=("sub1",))
    story.add("ok", session="bob", node="sub2", gid=GID, tag="UPDATE 1", rowcount=1)
    (broken,) = atomic(story.records)
    assert broken.endswith(" and not at sub2")


def test_a_change_of_what_is_not_published_is_at_one_node():
    story = Story().markers("pub").markers("sub1", f"{GID}:sub1", participants=())
    story.add("ok", session="bob", node="sub1", gid=GID, tag="INSERT 0 1", rowcount=1)
    assert atomic(story.records) == []


def test_a_fence_is_no_branch():
    story = Story().markers("pub", f"{GID}:pub", fence=True).markers("sub1")
    assert atomic(story.records) == []


def test_a_participant_that_is_no_node_of_ours_is_not_missed():
    story = Story().markers("pub", f"{GID}:pub", participants=("pub", "elsewhere"))
    assert atomic(story.records) == []


def test_foreign_markers_are_passed_over():
    assert atomic(Story().markers("pub", "pg_gid_1", "x").markers("sub1").records) == []


def test_refused_and_yet_there():
    story = Story().add("rejected", session="bob", step="b_end", gid=GID)
    story.markers("pub", f"{GID}:pub").markers("sub1", f"{GID}:sub1")
    assert atomic(story.records) == [
        f"{GID} was refused to bob (b_end) and yet took effect at pub and sub1"
    ]


def test_refused_at_a_statement_and_committed_without_it():
    story = Story().add("rejected", session="bob", step="b", gid=GID)
    story.add("ok", session="bob", step="b_end", gid=GID, data={"committed": True})
    story.markers("pub", f"{GID}:pub").markers("sub1", f"{GID}:sub1")
    assert atomic(story.records) == []


@pytest.mark.parametrize(("rowcount", "broken"), [(1, True), (0, False)])
def test_committed_and_nowhere(rowcount, broken):
    story = Story().add("ok", session="bob", step="b", gid=GID, tag="UPDATE 1", rowcount=rowcount)
    story.add("ok", session="bob", step="b_end", gid=GID, tag="COMMIT", data={"committed": True})
    story.markers("pub").markers("sub1")
    expected = [f"{GID} was committed for bob (b_end) and took effect nowhere"]
    assert atomic(story.records) == (expected if broken else [])


def test_all_taken_back_by_a_savepoint_and_committed():
    story = Story().add("ok", session="bob", step="b", gid=GID, tag="UPDATE 1", rowcount=1)
    story.add("ok", session="bob", step="b_back", gid=GID, tag="ROLLBACK", rowcount=-1)
    story.add("ok", session="bob", step="b_end", gid=GID, tag="COMMIT", data={"committed": True})
    assert atomic(story.markers("pub").markers("sub1").records) == []


@pytest.mark.parametrize("said", [True, False], ids=["and was told so", "who had given up waiting"])
@pytest.mark.parametrize("subscribed", [True, False])
def test_committed_by_one_who_has_left(said, subscribed):
    """Missing markers of a branch are no failure if its Subscriber was unsubscribed.

    This holds even if the client that unsubscribed it had given up waiting for the answer.
    """
    story = Story().add(
        "ok", session="a", step="a1", node="sub1", gid=GID, tag="UPDATE 1", rowcount=1
    )
    story.add(
        "ok", session="a", step="a2", node="sub1", gid=GID, tag="COMMIT", data={"committed": True}
    )
    if said:
        story.add("ok", session="b", step="b1", node="sub1", tag="UNSUBSCRIBE")
    data = {"table": "t", "key": ["id"], "moment": "final", "subscribed": subscribed}
    story.add("state", node="sub1", rows=(), data=data)
    story.markers("pub").markers("sub1")
    broken = f"{GID} was committed for a (a2) and took effect nowhere"
    assert atomic(story.records) == ([broken] if subscribed and not said else [])


def test_prepared_left():
    story = Story().add("prepared", node="pub", data={"gids": [f"{GID}:pub"]})
    assert prepared_left(story.records) == [f"{GID}:pub is still prepared at pub"]
    assert prepared_left(Story().add("prepared", node="pub", data={"gids": []}).records) == []


def test_versions_that_move_forward():
    story = Story().state("pub", (1, 10, "a")).state("sub1", (1, 10, "a"))
    story.state("pub", (1, 20, "b")).state("pub", (1, 10, "c")).state("sub1", (1, 10, "c"))
    assert versions_move_forward(story.records) == []


def test_contents_that_change_without_their_version():
    story = Story().state("pub", (1, 10, "a"), (2, 1, "z")).state("pub", (1, 20, "a"), (2, 1, "z"))
    assert versions_move_forward(story.records) == [
        "t id=1 at pub changed and kept its version, v1"
    ]


def test_a_version_that_comes_back():
    story = Story().state("pub", (1, 10, "a")).state("pub", (1, 20, "b")).state("pub", (1, 10, "a"))
    assert versions_move_forward(story.records) == [
        "t id=1 at pub came back to its earlier version, v1"
    ]


def test_one_version_of_two_contents():
    story = Story().state("pub", (1, 10, "a")).state("sub1", (1, 20, "a"))
    assert versions_move_forward(story.records) == [
        "t id=1 has the same version, v1, at pub and sub1, with different contents"
    ]


def test_every_invariant_has_its_checker():
    from twopc.sim.scenario.model import Expect

    assert set(DEFAULTS) < set(CHECKS) <= set(Expect.model_fields)


def final(story: Story, node, *rows):
    return story.state(node, *rows, moment="final")


def test_converged():
    story = final(
        final(Story(), "pub", (1, 10, "a"), (2, 20, "b")), "sub1", (1, 10, "a"), (2, 20, "b")
    )
    assert converged(story.records) == []


def test_not_converged_names_keys_and_columns():
    story = Story()
    final(story, "pub", (1, 10, "a"), (2, 20, "b"), (3, 30, "c"))
    final(story, "sub1", (1, 11, "a"), (3, 30, "x"), (4, 40, "d"))
    assert sorted(converged(story.records)) == [
        "t id=1 at sub1 differs from pub in n",
        "t id=2 at sub1 is missing",
        "t id=3 at sub1 differs from pub in row version",
        "t id=4 at sub1 is not at pub",
    ]


def test_of_many_rows_the_number_is_compared_too():
    story = final(final(Story(), "pub", (1, 10, "a")), "sub1", (1, 10, "a"))
    story.records[0] = dataclasses.replace(story.records[0], rowcount=300)
    story.records[1] = dataclasses.replace(story.records[1], rowcount=299)
    assert converged(story.records) == ["t at sub1 has 299 rows, not 300"]


def test_a_subscriber_is_compared_with_its_part():
    story = Story()
    final(story, "pub", (1, 10, "a"), (2, 20, "b"))
    final(story, "sub1", (2, 20, "b"))
    row = {"id": 2, "n": 20, VERSION_COLUMN: "b"}
    story.add(
        "state", node="pub", rows=(row,), rowcount=1,
        data={"table": "t", "key": ["id"], "moment": "part", "part": "sub1"},
    )  # fmt: skip
    assert converged(story.records) == []
    assert versions_move_forward(story.records) == []


def test_an_agent_that_stopped_has_not_converged():
    story = final(final(Story(), "pub"), "sub1")
    story.add("error", node="sub1", step=LAST_SYNC, message="23505")
    assert converged(story.records) == ["sub1 did not get everything: 23505"]


def test_echoed():
    story = Story()
    story.add("deliver", node="sub2", data={"origin": "sub1", "commands": ["update t id=1"]})
    story.add("suppress", node="sub1", data={"origin": "sub1", "commands": ["update t id=1"]})
    assert echoed(story.records) == []
    story.add("deliver", node="sub1", data={"origin": "sub1", "commands": ["update t id=1"]})
    assert echoed(story.records) == ["sub1 got its own transaction back: update t id=1"]


def test_echoed_is_told_by_who_began_it_whatever_the_agent_took_it_for():
    story = Story().add("ok", session="alice", node="sub1", step="a_begin", gid=GID)
    story.add("deliver", node="sub2", gid=GID, data={"origin": "pub", "commands": ["update t"]})
    assert echoed(story.records) == []
    story.add("deliver", node="sub1", gid=GID, data={"origin": "pub", "commands": ["update t"]})
    assert echoed(story.records) == ["sub1 got its own transaction back: update t"]


def commit(story: Story, node="sub1", session="alice"):
    """Add the session's commit; the states that follow show what it has changed."""
    data = {"committed": True}
    return story.add("ok", session=session, node=node, step="end", gid=GID, tag="COMMIT", data=data)


def start(*rows):
    """Return a history with the same initial rows at every node."""
    story = Story()
    for node in ("pub", "sub1", "sub2"):
        story.state(node, *rows, moment="initial")
    return story


def test_no_lost_update_where_both_had_the_same():
    story = commit(start((1, 10, "a"))).state("pub", (1, 20, "b")).state("sub1", (1, 20, "b"))
    story = commit(story).state("pub", (1, 30, "c")).state("sub1", (1, 30, "c"))
    assert no_lost_update(story.records) == []


def test_a_lost_update():
    story = commit(start((1, 10, "a"))).state("pub", (1, 20, "b")).state("sub1", (1, 20, "b"))
    commit(story, "sub2", "bob").state("pub", (1, 30, "c")).state("sub2", (1, 30, "c"))
    assert no_lost_update(story.records) == [
        "bob (end) changed t id=1 from v1 at sub2, while pub had v2: that change is lost"
    ]


def test_a_delete_that_is_lost_and_one_that_loses():
    story = commit(start((1, 10, "a"))).state("pub").state("sub1")
    commit(story, "sub2", "bob").state("pub", (1, 30, "c")).state("sub2", (1, 30, "c"))
    assert no_lost_update(story.records) == [
        "bob (end) changed t id=1 from v1 at sub2, while pub had no row: that change is lost"
    ]
    story = commit(start((1, 10, "a"))).state("pub", (1, 20, "b")).state("sub1", (1, 20, "b"))
    commit(story, "sub2", "bob").state("pub").state("sub2")
    assert len(no_lost_update(story.records)) == 1


def test_what_the_publisher_changes_itself_is_not_lost():
    """Changes of the Publisher's sessions and triggers, which see its rows, are no lost updates."""
    story = commit(start((1, 10, "a")), "pub").state("pub", (1, 20, "b"))
    commit(story).state("pub", (1, 21, "c")).state("sub1", (1, 10, "a"))
    assert no_lost_update(story.records) == []


def test_a_look_after_something_else_belongs_to_no_commit():
    story = commit(start((1, 10, "a"))).add("ok", session="bob", step="b_sync", tag="SYNC")
    story.state("pub", (1, 30, "c")).state("sub1", (1, 30, "c"))
    assert no_lost_update(story.records) == []


@pytest.mark.parametrize(
    ("settings", "broken"),
    [
        ({"equals": "30"}, []),
        ({"equals": "30.00"}, []),
        ({"equals": "31"}, ["t.n at pub adds up to 30, not 31"]),
        ({"equals": "30", "node": "everywhere"}, ["t.n at sub1 adds up to 12, not 30"]),
        ({"equals": "12", "node": "sub1"}, []),
    ],
)
def test_sums(settings, broken):
    story = final(
        final(Story(), "pub", (1, 10, "a"), (2, 20, "b"), (3, None, "c")), "sub1", (1, 12, "a")
    )
    assert sums(story.records, {"table": "t", "column": "n", **settings}) == broken


def test_sums_of_what_cannot_be_added():
    story = final(Story(), "pub", (1, "ten", "a"))
    settings = {"table": "t", "column": "n", "equals": "10"}
    assert sums(story.records, settings) == ["t.n at pub holds what is no number"]
    story = final(Story(), "pub", *((i, 1, "a") for i in range(3)))
    story.records[-1] = dataclasses.replace(story.records[-1], rowcount=1000)
    assert sums(story.records, settings) == ["t at pub has 1000 rows, too many to add up"]


@pytest.mark.parametrize(
    ("at", "told", "broken"),
    [
        (None, {"rows": ()}, []),
        (None, {"rows": ({"id": 1}, {"id": 2})}, ["at pub it returns {id: 1} and 1 more"]),
        ("sub1", {"rows": ({"id": 1},)}, []),
        (None, {"sqlstate": "42P01", "message": "no u"}, ["at pub it fails: 42P01 no u"]),
    ],
)
def test_no_rows(at, told, broken):
    story = final(final(Story(), "pub"), "sub1")
    story.add("query", node="sub1", sql="select 1", rows=())
    story.add("query", node="pub", sql="select 1", **told)
    assert no_rows(story.records, {"text": "select 1", "at": at}) == broken


def test_a_query_that_nobody_asked_is_not_fulfilled():
    story = final(Story(), "pub")
    assert no_rows(story.records, {"text": "select 1"}) == ["not queried: select 1"]
    assert no_rows([], {"text": "select 1"}) == []  # the order ended before the query


def applied(*, seqnos=("1",), nodes=("sub2",), suppressed=("sub1",)):
    """Return a history of Alice's change of a row, and of its deliveries."""
    story = commit(start((1, 10, "a"))).state("pub", (1, 20, "b")).state("sub1", (1, 20, "b"))
    for node in suppressed:
        story.add("suppress", node=node, gid=GID, data={"seqno": "1"})
    for node in nodes:
        for seqno in seqnos:
            data = {"seqno": seqno, "commands": ["update t"]}
            story.add("deliver", node=node, gid=GID, data=data)
    return story


def test_applied_once():
    assert each_change_applied_once(applied().records) == []


def test_applied_twice():
    story = applied(seqnos=("1", "1"))
    assert each_change_applied_once(story.records) == ["sub2 applied a transaction twice: update t"]


@pytest.mark.parametrize(
    ("left_out", "said"), [({"nodes": ()}, "sub2"), ({"suppressed": ()}, "sub1")]
)
def test_not_applied(left_out, said):
    assert each_change_applied_once(applied(**left_out).records) == [
        f"{said} did not get {GID}, which alice (end) committed"
    ]


def test_what_does_not_belong_to_a_subscriber_need_not_come_there():
    story = applied(nodes=())
    story.add(
        "state", node="pub", rows=(), data={"table": "t", "key": ["id"], "moment": "part", "part": "sub2"}
    )  # fmt: skip
    assert each_change_applied_once(story.records) == []


def test_who_has_copied_everything_later_has_it():
    story = applied(nodes=()).add("ok", session="x", node="sub2", step="x", tag="REINITIALISE")
    assert each_change_applied_once(story.records) == []
