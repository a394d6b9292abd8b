"""Tests of messages between sessions and nodes, and of both diagrams of them."""

from __future__ import annotations

import re

import pytest

from tests.fix_golden import Golden
from tests.report.recorded import HOSTILE, NAMES, ended, first, made, records, sent
from twopc.sim.report.diagram import diagram, text
from twopc.sim.report.history import HistoryRecord
from twopc.sim.report.mermaid import markdown, mermaid
from twopc.sim.report.recorded_orders import PlayedOrder, played
from twopc.sim.report.sequence import Note, SequenceMessage, sequence


def only(*happenings: HistoryRecord, **header: object) -> PlayedOrder:
    """Return the only order of a constructed history."""
    (order,) = played(made(*happenings, **header))
    return order


def told(order: PlayedOrder) -> list[str]:
    """Return items as ``session: text`` or ``source > target: text``."""
    return [
        f"{item.over}: {item.text}"
        if isinstance(item, Note)
        else f"{item.source} > {item.target}{' lost' * item.lost}: {item.text}"
        for item in sequence(order).items
    ]


@pytest.mark.parametrize("name", NAMES)
def test_golden(name: str, golden: Golden) -> None:
    orders = list(played(records(name)))
    golden(f"report/{name}.md", markdown(orders))
    golden(
        f"report/diagram_{name}.txt",
        "\n".join(f"{order.name}\n{text(diagram(order, 110))}" for order in orders),
    )


def test_a_lost_update_goes_over_the_publisher() -> None:
    assert told(first("lost_update"))[4:] == [
        "alice > node pub: a_write: update account set balance = :bal - 10 where id = 1",
        "node pub > alice: a_write ✓ 1 row",
        "bob > node pub: b_write: update account set balance = :bal - 20 where id = 1",
        "bob: ⧗ waits for alice (a_write) at pub",
        "alice > node pub: commit",
        "node pub > alice: commit ✓ at pub and sub1",
        "node pub > bob: b_write ✗ refused: version_mismatch",
        "bob: account id=1 has changed at the Publisher since this copy was made; "
        "there it is {id: 1, balance: 90}",
        "bob: commit ✗ rolled back",
        "bob: refused at b_write",
    ]


def test_what_waits_at_its_own_node_reaches_the_publisher_later() -> None:
    items = [each for each in told(first("deadlock")) if "c_one" in each or "carol: ⧗" in each]
    assert items == [
        "carol: c_one: update shelf set items = 30 where id = 1",
        "carol: ⧗ waits for alice (a_one) at sub1",
        "carol > node pub: c_one",
        "carol: ⧗ waits for alice at pub",
        "node pub > carol: c_one ✓ 1 row",
    ]


UPDATE = sent("update t set n = 1")
WROTE = ended(rowcount=1, tag="UPDATE 1")


@pytest.mark.parametrize(
    ("happenings", "header", "items"),
    [
        ([UPDATE, WROTE], {}, ["alice > node pub: s: update t set n = 1",
                               "node pub > alice: s ✓ 1 row"]),
        ([UPDATE, WROTE], {"shipping": "lazy"}, ["alice: s: update t set n = 1 ✓ 1 row"]),
        ([UPDATE, ended(rowcount=0, tag="UPDATE 0")], {}, ["alice: s: update t set n = 1 ✓ 0 rows"]),
        ([UPDATE, ended("rejected", conflict={"kind": "publisher_unreachable"})], {},
         ["alice > node pub lost: s: update t set n = 1", "alice: s ✗ refused: publisher_unreachable",
          "alice: the Publisher did not answer; nothing was left there"]),
        ([UPDATE, ended("error", sqlstate="22012", message="division by zero")], {},
         ["alice: s: update t set n = 1 ✗ error 22012", "alice: division by zero"]),
        ([UPDATE, ended("in_doubt", message="no answer")], {},
         ["alice: s: update t set n = 1 ? in doubt", "alice: no answer"]),
        ([UPDATE], {}, ["alice: s: update t set n = 1"]),
        ([sent("begin"), ended(tag="BEGIN")], {}, ["alice: begin"]),
        ([sent("commit"), ended(tag="COMMIT")], {}, ["alice: commit ✓"]),
        ([sent("select 1", session="office", node="pub"),
          ended(session="office", node="pub", rows=({"a": 1},), tag="SELECT 1")], {},
         ["office > node pub: s: select 1", "node pub > office: s → a=1"]),
        ([ended("explain", message="Look!")], {}, ["alice: » Look!"]),
        ([HistoryRecord(seq=0, t_us=0, kind="deliver", node="sub1",
                 data={"origin": "sub2", "commands": ["insert t", "delete u"]}),
          HistoryRecord(seq=0, t_us=0, kind="suppress", node="sub1", data={"commands": []}),
          HistoryRecord(seq=0, t_us=0, kind="skip", node="sub1", data={"commands": ["x"]})], {},
         ["node pub > node sub1: agent brings: insert t; delete u",
          "node sub1: agent: its own is not sent back",
          "node pub > node sub1 lost: agent leaves out: x"]),
        ([sent("sync"), HistoryRecord(seq=0, t_us=0, kind="deliver", node="sub1", data={"commands": ["c"]}),
          ended()], {},
         ["alice: s: sync", "node pub > alice: agent brings: c", "alice: s ✓"]),
    ],
)  # fmt: skip
def test_who_is_told(
    happenings: list[HistoryRecord], header: dict[str, object], items: list[str]
) -> None:
    assert told(only(*happenings, **header)) == items


def test_a_long_order_is_drawn_around_what_went_wrong() -> None:
    many = [each for n in range(100) for each in (sent(f"select {n}"), ended(tag="SELECT 0"))]
    wrong = [UPDATE, ended("rejected", conflict={"kind": "row_missing"})]
    order = only(*many, *wrong, *many)
    drawn = sequence(order, items_max=10)
    assert len(drawn.items) == 10
    assert [item.style for item in drawn.items].index("bad") == 5
    assert drawn.before + 10 + drawn.behind == 100 + 2 + 100
    assert "71 earlier steps are left out" in mermaid(order)
    whole = text(diagram(order))
    assert "… 71 earlier" in whole
    assert "later" in whole
    assert len(mermaid(order)) < 50_000  # Mermaid refuses longer texts


def test_nothing_in_a_text_means_anything_to_mermaid() -> None:
    order = only(sent(HOSTILE), ended(rows=({"a": HOSTILE},), tag="SELECT 1"))
    *_, line = mermaid(order).splitlines()
    label = line.partition("Note over p0: ")[2].replace("<br/>", " ")
    plain = re.sub(r"#(\d+);", lambda found: chr(int(found[1])), label)
    assert " ".join(HOSTILE.split()) in " ".join(plain.split())
    assert not set(re.sub(r"#\d+;", "", label)) & set('#;<>%&"`{}[]|\\')


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("name", ["aba", "lost_update", "stuck"])
def test_lanes_stay_straight(name: str, columns: int) -> None:
    """If no message crosses a lane, each lane is visible in every line."""
    lines = [line.text for line in diagram(first(name), columns)]
    begin = next(at for at, line in enumerate(lines) if "│" in line)
    lanes = [at for at, sign in enumerate(lines[begin]) if sign == "│"]
    assert len(lanes) == 3
    for line in lines[begin:]:
        assert all(line[at] in "│├┤" for at in lanes), line


def test_a_history_that_was_cut_off_is_drawn_as_far_as_it_goes() -> None:
    whole = records("deadlock")
    for length in range(2, len(whole)):
        for order in played(whole[:length]):
            assert text(diagram(order))
            assert mermaid(order).startswith("sequenceDiagram")


def test_messages_know_their_time() -> None:
    items = sequence(first("lost_update")).items
    times = [item.t_us for item in items]
    assert times == sorted(times)
    assert any(isinstance(item, SequenceMessage) and item.answer for item in items)
