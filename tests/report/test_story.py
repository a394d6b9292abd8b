"""Tests of stories: those of recorded runs, and sentences that they do not contain."""

from __future__ import annotations

import dataclasses

import pytest

from tests.fix_golden import Golden
from tests.report.normal import normal, stories
from tests.report.recorded import NAMES, ended, made, records, sent
from twopc.sim.report.diagram import diagram, text
from twopc.sim.report.fold import Fold
from twopc.sim.report.history import HistoryRecord, by_order
from twopc.sim.report.phrases import shorten
from twopc.sim.report.recorded_orders import played
from twopc.sim.report.story import story
from twopc.sim.report.timeline import timeline


@pytest.mark.parametrize("name", NAMES)
def test_golden(name: str, golden: Golden) -> None:
    golden(f"report/story_{name}.txt", stories(records(name)))


def test_the_cause_is_told_before_what_it_caused() -> None:
    """The cause precedes its effect, even if the refusal was recorded before the commit that caused it."""
    (_, order), *_ = by_order(records("lost_update"))
    refused = next(at for at, each in enumerate(order) if each.kind == "rejected")
    commit = next(at for at, each in enumerate(order) if each.tag == "COMMIT")
    moved = [*order[:commit], order[refused], *order[commit:refused], *order[refused + 1 :]]
    swapped = [
        dataclasses.replace(each, seq=at, t_us=0) for at, each in enumerate(moved, order[0].seq)
    ]
    told = [each for each in story(Fold(swapped)) if "refused (" in each or "commits" in each]
    assert told == [each for each in story(Fold(order)) if "refused (" in each or "commits" in each]


def happened(kind: str, **fields: object) -> HistoryRecord:
    """Return the record of an event that is no step."""
    return HistoryRecord(seq=0, t_us=0, kind=kind, **fields)  # type: ignore[arg-type] # each kind has its own


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (happened("outage", node="pub", data={"on": True}), "pub accepts no connections from now on."),
        (happened("outage", node="pub", data={"on": False}), "pub accepts connections again."),
        (happened("paused", node="sub1", data={"on": True}), "The agent of sub1 is paused."),
        (happened("paused", node="sub1", data={"on": False}), "The agent of sub1 is resumed."),
        (happened("notice", session="alice", data={"count": 2}), "alice receives: 2 notices."),
        (
            happened("fault", message="agent.before_apply(sub1)", data={"id": "f", "at": "agent.x"}),
            "Fault f strikes at agent.x.",
        ),
        (
            happened("fault", data={"id": "f", "at": "agent.x", "no_effect": "the agent of sub1 is not running"}),
            "Fault f has no effect at agent.x: the agent of sub1 is not running.",
        ),
        (happened("infeasible", session="alice", message="b_end is blocked"), "The order ends here: b_end is blocked."),
        (
            happened("queued", session="alice", step="a_end", message="s is not over"),
            "alice's a_end must be queued: s is not over.",
        ),
        (
            ended("in_doubt", message="no reply came"),
            "alice's s is in doubt: it may or may not have been committed (no reply came).",
        ),
        (
            happened("prepared", node="pub", data={"gids": ["twopc:c:1:1:pub"]}),
            "Branch twopc:c:1:1:pub is still prepared at pub.",
        ),
        (
            happened("blocked", node="sub1", step="last sync", wait={"session": "alice", "node": "sub1"}),
            "An agent waits at sub1 for alice, who holds what it needs.",
        ),
    ],
)  # fmt: skip
def test_sentences(record: HistoryRecord, told: str) -> None:
    assert told in story(Fold(made(record)))


def test_a_twin_and_a_cell_say_so_first() -> None:
    twin = {"protections": ["version_check"], "must_fail": "no_lost_update"}
    order = made(sent("select 1"), ended(rows=(), rowcount=0))
    order[1] = dataclasses.replace(
        order[1],
        data={**(order[1].data or {}), "twin": twin, "cell": {"isolation.pub": "serializable"}},
    )
    assert story(Fold(order))[:2] == [
        "Here version_check is switched off, and no_lost_update must fail.",
        "Played with isolation.pub = serializable.",
    ]


def test_what_is_not_told() -> None:
    assert story(Fold([])) == []
    assert story(Fold(made(happened("info", message="stage")))) == []


def test_normal() -> None:
    assert normal("twopc:t_1:2:3 waits for process 17 since 12.5 ms at 0/19D7708") == (
        "<gid> waits for process … since … ms at <position>"
    )
    assert normal("alice's transaction (b; a)") == "alice's transaction (a; b)"
    assert (
        normal("alice's transaction (b; a; 6 more)")
        == "alice's transaction (2 commands and 6 more)"
    )


def test_a_transaction_that_comes_back() -> None:
    """An echo is recognised by the session that made the change, not by the agent's record."""
    gid = "twopc:c:1:1"
    brought = {"seqno": "0/1", "origin": "pub", "commands": ["update t id=1"]}
    order = made(
        ended(tag="COMMIT", step="a_end", gid=gid, data={"committed": True}),
        happened("deliver", node="sub1", gid=gid, data=brought),
        happened("deliver", node="sub2", gid=gid, data=brought),
    )
    told = "To sub1 alice's transaction (update t id=1) comes back, though it came from there: an echo."
    assert told in story(Fold(order))
    assert "The agents deliver alice's transaction (update t id=1) to sub2." in story(Fold(order))
    assert "✗ → sub1: update t id=1" in [entry.text for entry in timeline(Fold(order)).entries]
    assert "brings back: update t id=1" in text(diagram(next(played(order)), 200))


def test_two_transactions_that_do_the_same() -> None:
    brought = [
        happened("deliver", node="sub1", data={"seqno": at, "origin": "pub", "commands": ["x"]})
        for at in ("0/1", "0/2")
    ]
    assert (
        story(Fold(made(*brought))) == ["The agents deliver a transaction of pub (x) to sub1."] * 2
    )


def test_a_long_message_is_cut_where_its_row_versions_digits_do_not_matter() -> None:
    """A long message is cut at the same place, whatever the digits of a row version are.

    A hyphen after two letters was a place to cut; in a uuid, letters are a matter of chance.
    """
    digits = "01234567-0123-0123-0123-0123456789ab", "abcdefab-cdef-abcd-efab-cdefabcdefab"
    short = [shorten(f"{'command ' * 29}'{each}'::uuid)", 240) for each in digits]
    assert short[0] == short[1] == ("command " * 29).rstrip() + " …"


def test_recovery_is_an_actor() -> None:
    """Recovery has sentences, a lane and messages of its own.

    A change is attributed to its own transaction, whichever session's step precedes its
    first record.
    """
    gid = "twopc:c:1:1"
    old, new = ({"id": "1", "msrepl_tran_version": version} for version in ("a", "b"))
    of_table = {"table": "account", "key": ["id"]}
    settled = {"gid": gid, "message": "the decision log says commit"}
    order = made(
        happened("state", node="pub", rows=(old,), rowcount=1,
                 data={**of_table, "moment": "initial", "xids": ["7"], "branches": {}}),
        sent("update account set id = id", step="a"),
        ended("in_doubt", step="a", gid=gid, message="No reply came."),
        *(
            happened("settled", node=node, **settled,
                     data={"branch": f"{gid}:{node}", "outcome": "committed"})
            for node in ("pub", "sub1")
        ),
        sent("select 1", session="office", node="pub", step="o"),
        ended(session="office", node="pub", step="o", tag="SELECT 1", rows=(), rowcount=0,
              data={"committed": True}),
        happened("state", node="pub", rows=(new,), rowcount=1,
                 data={**of_table, "moment": "committed", "xids": ["8"], "branches": {f"{gid}:pub": "8"}}),
    )  # fmt: skip
    told = story(Fold(order))
    recovery = "Recovery commits alice's transaction at pub and sub1: the decision log says commit."
    assert recovery in told
    assert told[-1].startswith("alice's transaction has committed at pub: account id=1 becomes v2")
    assert not [each for each in told if "office" in each and "v2" in each]
    drawn = timeline(Fold(order))
    assert drawn.lanes[-1] == ("recovery", "")
    entry = next(each for each in drawn.entries if each.session == "recovery")
    assert entry.text == "✓ commits alice's transaction at pub and sub1"
    picture = text(diagram(next(played(order)), 200))
    assert picture.count("✓ commits alice's transaction") == 2
