"""Tests of the nodes' states at every moment, in recorded and constructed histories."""

from __future__ import annotations

from tests.report.recorded import NAMES, ended, first, made, records, sent
from twopc.sim.report.diagram import diagram, text
from twopc.sim.report.history import HistoryRecord
from twopc.sim.report.html import page
from twopc.sim.report.moments import NodeState, TimelineRow, moments, states
from twopc.sim.report.recorded_orders import PlayedOrder, played


def at(order: PlayedOrder, text: str) -> int:
    """Return the number of the first moment with this text; 0 is before the first."""
    return 1 + next(n for n, each in enumerate(moments(order)) if each.entry.text.startswith(text))


def state(
    node: str, table: str, rows: list[dict[str, str]], moment: str, **data: str
) -> HistoryRecord:
    """Return the record of a table's rows."""
    told = {"table": table, "key": ["id"], "moment": moment, **data}
    return HistoryRecord(
        seq=0, t_us=0, kind="state", node=node, rows=tuple(rows), rowcount=len(rows), data=told
    )


def test_every_record_belongs_to_one_moment() -> None:
    for name in NAMES:
        for order in played(records(name)):
            ends = [moment.until for moment in moments(order)]
            assert ends == sorted(ends)
            assert ends[-1] == order.records[-1].seq
            for node in states(order, moments(order)).values():
                assert len(node) == len(ends) + 1


def test_a_lost_update_as_the_nodes_see_it() -> None:
    order = first("lost_update")
    seen = states(order, moments(order))

    def rows(node: str, moment: int) -> list[str]:
        return [str(row["balance"]) for row in seen[node][moment].tables[0].rows]

    def doing(node: str, moment: int) -> list[str]:
        return [standing.text for _, standing in seen[node][moment].sessions]

    assert [rows(node, 0) for node in seen] == [["100"]] * 3
    assert doing("sub1", 0) == ["not begun"]
    assert doing("sub1", at(order, "begin")) == ["in a transaction"]
    blocked = at(order, "⧗ waits for alice (a_write)")
    assert doing("sub2", blocked) == ["⧗ b_write waits"]
    assert seen["pub"][blocked].waits == ("bob waits for alice (a_write): a row of account",)
    assert rows("pub", blocked) == ["100"]
    assert doing("sub2", at(order, "b_write ✗")) == ["✗ refused: version_mismatch"]
    last = {node: each[-1] for node, each in seen.items()}
    assert rows("pub", -1) == rows("sub1", -1) == ["90"]
    assert rows("sub2", -1) == ["100"]
    assert [each.sessions for each in last.values()] == [
        (),
        (("alice", last["sub1"].sessions[0][1]),),
        (("bob", last["sub2"].sessions[0][1]),),
    ]
    assert doing("sub1", -1) == ["✓ committed"]
    assert doing("sub2", -1) == ["✗ rolled back"]
    assert not any(each.waits for each in last.values())
    assert [each.prepared for each in last.values()] == [()] * 3


def last_of(*happenings: HistoryRecord) -> dict[str, NodeState]:
    """Return the nodes' states at the end of a constructed order."""
    (order,) = played(made(sent("begin"), ended(tag="BEGIN"), *happenings))
    seen = states(order, moments(order))
    return {node: each[-1] for node, each in seen.items()}


def test_a_subscriber_is_compared_with_the_part_that_it_subscribes_to() -> None:
    whole, part = [{"id": "1"}, {"id": "2"}], [{"id": "1"}]
    partial = [
        state("pub", "t", whole, "final"),
        state("sub1", "t", part, "final"),
        state("pub", "t", part, "part", part="sub1"),
    ]
    (table,) = last_of(*partial)["sub1"].tables
    assert table.publisher == tuple(part)
    assert last_of(*partial)["pub"].tables[0].rows == tuple(whole)
    (table,) = last_of(*partial[:2])["sub1"].tables
    assert table.publisher == tuple(whole)


def test_rows_before_their_last_change_are_kept() -> None:
    one, two = [{"id": "1", "n": "1"}], [{"id": "1", "n": "2"}]
    (table,) = last_of(state("pub", "t", one, "initial"), state("pub", "t", one, "final"))[
        "pub"
    ].tables
    assert table.before is None
    (table,) = last_of(state("pub", "t", one, "initial"), state("pub", "t", two, "final"))[
        "pub"
    ].tables
    assert table.before == tuple(one)


def test_what_is_in_doubt_stays_in_doubt() -> None:
    left = HistoryRecord(
        seq=0, t_us=0, kind="prepared", node="pub", data={"gids": ["twopc:c:1:1:pub"]}
    )
    outcome = HistoryRecord(
        seq=0, t_us=0, kind="outcome", session="alice", node="sub1", message="in doubt"
    )
    nodes = last_of(sent("commit"), ended("in_doubt"), outcome, left)
    assert nodes["sub1"].sessions[0][1].text == "? in doubt"
    assert nodes["pub"].prepared == ("twopc:c:1:1:pub",)


def test_a_step_that_was_given_up_ends_where_it_was_cancelled() -> None:
    order = first("stuck")
    step = next(each for each in order.fold.steps if each.invoked.step == "c_one")
    assert step.ended is None
    assert [record.kind for record in order.records if record.seq == step.until] == ["info"]
    ((blocked, until),) = step.waits
    assert blocked.kind == "blocked"
    assert until == step.until


def test_nothing_was_played() -> None:
    (order,) = played(made())
    assert moments(order) == []
    assert states(order, [])["pub"] == [
        NodeState(sessions=(), waits=(), prepared=None, troubles=(), tables=())
    ]
    assert isinstance(moments(first("aba"))[0], TimelineRow)


def test_an_outage_and_an_agent_that_rests_are_seen_everywhere() -> None:
    """An outage and a paused agent are shown in the timeline, the diagram and at the node."""

    def happens(kind: str, node: str, on: bool) -> HistoryRecord:
        return HistoryRecord(seq=0, t_us=0, kind=kind, node=node, data={"on": on})

    order = next(
        played(
            made(
                sent("select 1"),
                ended(rows=(), rowcount=0),
                happens("outage", "pub", True),
                happens("paused", "sub1", True),
                happens("outage", "pub", False),
            )
        )
    )
    shown = moments(order)
    assert [moment.entry.text for moment in shown][1:] == [
        "✗ pub accepts no connections",
        "the agent of sub1 is paused",
        "pub accepts connections again",
    ]
    found = states(order, shown)
    troubles = [state.troubles for state in found["pub"]]
    assert troubles == [(), (), ("accepts no connections",), ("accepts no connections",), ()]
    assert found["sub1"][-1].troubles == ("its agent is paused",)
    drawn = text(diagram(order, 100))
    assert "✗ pub accepts no connections" in drawn
    assert "the agent of sub1 is paused" in drawn
    assert "accepts no connections" in page(made(happens("outage", "pub", True)))
