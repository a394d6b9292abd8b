"""Tests of reasons for each kind of check: of recorded runs, and of histories with planted errors."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.report.recorded import ended, made, records, sent
from twopc.sim.report.causes import because_of
from twopc.sim.report.fold import Fold
from twopc.sim.report.history import HistoryRecord, by_order

V1, V2, V3 = "11111111-1111-1111-1111-111111111111", "2" * 8, "3" * 8
GID = "twopc:c:1:"


def state(node: str, moment: str, *rows: tuple[int, int, str], **data: object) -> HistoryRecord:
    """Return the record of ``account`` at a node: key, balance and version of each row."""
    shown = tuple({"id": i, "balance": b, "msrepl_tran_version": v} for i, b, v in rows)
    about = {"table": "account", "key": ["id"], "moment": moment, **data}
    return HistoryRecord(
        seq=0, t_us=0, kind="state", node=node, rows=shown, rowcount=len(shown), data=about
    )


def write(session: str, node: str, number: int) -> list[HistoryRecord]:
    """Return the records of a session that changes the row and commits."""
    step, gid = f"{session[0]}_write", f"{GID}{number}"
    sql = "update account set balance = 0 where id = 1"
    who: dict[str, Any] = {"session": session, "node": node, "gid": gid}
    return [
        ended(step=f"{session[0]}_begin", tag="BEGIN", **who),
        sent(sql, session=session, node=node, step=step),
        ended(step=step, rowcount=1, tag="UPDATE 1", **who),
        sent("commit", session=session, node=node, step=f"{session[0]}_end"),
        ended(step=f"{session[0]}_end", tag="COMMIT", data={"committed": True}, **who),
    ]


def lost(*more: HistoryRecord, **order: object) -> list[HistoryRecord]:
    """Return a history in which alice at sub1 and bob at sub2 change v1, and both are accepted."""
    found = made(
        state("pub", "initial", (1, 100, V1)),
        state("sub1", "initial", (1, 100, V1)),
        state("sub2", "initial", (1, 100, V1)),
        *write("alice", "sub1", 1),
        state("pub", "committed", (1, 90, V2)),
        state("sub1", "committed", (1, 90, V2)),
        *write("bob", "sub2", 2),
        state("pub", "committed", (1, 80, V3)),
        state("sub2", "committed", (1, 80, V3)),
        *more,
    )
    found[1] = dataclasses.replace(found[1], data={**(found[1].data or {}), **order})
    return found


LOST = (
    "the Publisher's row account id=1 was v2 when bob's b_write arrived with v1, and it was accepted",
    "alice's a_write (v1 → v2: balance 100 → 90) had been committed before: that change is lost",
)


@pytest.mark.parametrize(
    "check", ["no_lost_update", "sum", "steps.b_write", "sessions.bob", "versions_move_forward"]
)
def test_a_lost_update(check: str) -> None:
    assert because_of(Fold(lost()), {"check": check}) == LOST


def test_a_twin_names_what_is_switched_off() -> None:
    twin = {"protections": ["version_check"], "must_fail": "converged"}
    because, however = because_of(Fold(lost(twin=twin)), {"check": "no_lost_update"})
    assert because == f"{LOST[0]}, with version_check switched off"
    assert however == LOST[1]
    nothing = made()
    nothing[1] = dataclasses.replace(nothing[1], data={"twin": twin})
    told = because_of(Fold(nothing), {"check": "twin"})
    assert told == ("version_check was switched off and nothing came of it", "")


def test_not_converged() -> None:
    final = [state(node, "final", (1, 80, V3)) for node in ("pub", "sub2")]
    because, however = because_of(
        Fold(lost(*final, state("sub1", "final", (1, 90, V2)))), {"check": "converged"}
    )
    assert because == "sub1 holds v2 of account id=1, and the Publisher v3"
    assert however == LOST[1]


def test_an_agent_that_stopped() -> None:
    stopped = ended("error", session="", node="sub1", step="last sync", message="duplicate key")
    because, _ = because_of(Fold(made(stopped)), {"check": "converged"})
    assert because == "the agent of sub1 stopped: duplicate key"


def delivered(node: str, gid: str, seqno: str = "0/1") -> HistoryRecord:
    """Return the record of a transaction that an agent delivers."""
    data = {"origin": "sub1", "seqno": seqno, "commands": ["update account id=1"]}
    return HistoryRecord(seq=0, t_us=0, kind="deliver", node=node, gid=gid, data=data)


@pytest.mark.parametrize(
    ("outcome", "reason", "verb"),
    [
        ("committed", "the decision log says commit", "committed"),
        ("aborted", "no decision was logged", "rolled back"),
    ],
)
def test_a_session_that_is_in_doubt(outcome: str, reason: str, verb: str) -> None:
    """A session in doubt is explained by the lost answer, and by how recovery settled it."""
    doubt = made(
        *write("alice", "sub1", 1)[:-1],
        ended(
            "in_doubt", session="alice", node="sub1", step="a_end", gid=f"{GID}1",
            message=f"{GID}1: the process was killed",
        ),
        *(
            ended(
                "settled", session="", node=node, gid=f"{GID}1", message=reason,
                data={"branch": f"{GID}1:{node}", "outcome": outcome},
            )
            for node in ("pub", "sub1")
        ),
        ended("outcome", session="alice", node="sub1", message="in doubt"),
    )  # fmt: skip
    recovery = f"recovery {verb} alice's transaction at pub and sub1: {reason}"

    told = because_of(Fold(doubt), {"check": "sessions.alice"})
    assert told == ("no answer came to a_end: the process was killed", recovery)
    assert because_of(Fold(doubt), {"check": "tables.account"})[1] == recovery


@pytest.mark.parametrize(
    ("end", "because"),
    [
        (
            [sent("rollback", step="a_end"), ended(step="a_end", tag="ROLLBACK")],
            "nothing of alice was refused: it was rolled back on purpose",
        ),
        (
            [ended("info", step="", message="still open at the end of the order: rolled back")],
            "alice's transaction was still open at the end of the order",
        ),
    ],
)
def test_a_session_that_is_rolled_back(end: list[HistoryRecord], because: str) -> None:
    order = made(
        *write("alice", "sub1", 1)[:3], *end, ended("outcome", step="", message="rolled back")
    )
    assert because_of(Fold(order), {"check": "sessions.alice"}) == (because, "")


def test_a_commit_that_is_not_expected() -> None:
    order = made(*write("alice", "sub1", 1))
    told = because_of(Fold(order), {"check": "steps.a_end"})
    assert told == ("every statement of alice was accepted", "")


def test_a_sync() -> None:
    (_, order), *_ = by_order(records("no_echo"))
    assert because_of(Fold(order), {"check": "steps.a_sync"}) == (
        "the agents delivered no transaction to any Subscriber",
        "alice's transaction came from sub1 itself, and is not sent back",
    )
    assert because_of(Fold(order), {"check": "steps.b_sync"}) == (
        "the agents delivered 1 transaction to sub2",
        "",
    )


def test_a_merge_session() -> None:
    """The reason of a sync, or of a table without conflicts, is what its merge session has carried."""
    report = {"subscriber": "anna", "publisher": "pub", "uploaded": 1, "downloaded": 3}
    who = {"session": "alice", "node": "anna", "step": "a_sync"}
    sync = ended(tag="SYNC", data={"merge": [report]}, **who)
    fold = Fold(made(sent("sync", **who), sync, replication="merge"))
    carried = ("a_sync carried 1 row up from anna and 3 rows down", "")

    assert because_of(fold, {"check": "steps.a_sync"}) == carried
    assert because_of(fold, {"check": "tables.account"}) == carried


def test_a_twin_that_fails_otherwise() -> None:
    """If a twin fails in another check than it must, that check's failure is explained."""
    twin = {"protections": ["version_check"], "must_fail": "no_lost_update"}
    stopped = ended("error", session="", node="sub1", step="last sync", message="no row")
    message = "expected only 'no_lost_update' to fail: it did, and also converged (…)"
    because, _ = because_of(Fold(lost(stopped, twin=twin)), {"check": "twin", "message": message})
    assert because == "the agent of sub1 stopped: no row"


def test_a_parent_that_somebody_deleted() -> None:
    message = 'violates "x" (Key (account)=(1) is not present in table "account".)'
    gone = [
        state("pub", "initial", (1, 100, V1)),
        *write("office", "pub", 1),
        state("pub", "committed"),
        sent("insert into line values (1)", step="s_line"),
        ended("rejected", step="s_line", message=message, conflict={"kind": "fk_violation"}),
    ]
    because, _ = because_of(Fold(made(*gone)), {"check": "steps.s_line"})
    assert because == f"{message}: office's o_write had deleted account id=1"


def test_an_echo() -> None:
    told = because_of(Fold(lost(delivered("sub1", f"{GID}1"))), {"check": "echoed"})
    assert told == (
        "alice's transaction began at sub1 and was committed there",
        "the agent brought update account id=1 back to sub1",
    )


def test_a_change_that_came_twice() -> None:
    twice = [delivered("sub2", f"{GID}1")] * 2
    because, _ = because_of(Fold(lost(*twice)), {"check": "each_change_applied_once"})
    assert because == "the agent brought update account id=1 to sub2 twice"


def test_half_a_transaction() -> None:
    marker = {"gid": f"{GID}1:sub1", "participants": ["pub", "sub1"], "fence": False}
    markers = HistoryRecord(seq=0, t_us=0, kind="markers", node="sub1", data={"markers": [marker]})
    assert because_of(Fold(lost(markers)), {"check": "atomic"}) == (
        "alice's transaction took effect at sub1",
        "its branch at the Publisher did not",
    )


def test_a_branch_that_is_left() -> None:
    left = HistoryRecord(seq=0, t_us=0, kind="prepared", node="pub", data={"gids": [f"{GID}1:pub"]})
    outcome = HistoryRecord(seq=0, t_us=0, kind="outcome", session="alice", message="in doubt")
    assert because_of(Fold(lost(left, outcome)), {"check": "prepared_left"}) == (
        "the branch at pub, of alice's transaction, is still prepared",
        "alice was told that it is in doubt",
    )


def test_a_question_of_the_scenario() -> None:
    asked = HistoryRecord(seq=0, t_us=0, kind="query", node="pub", rows=({"id": 7},), rowcount=1)
    because, _ = because_of(Fold(made(asked)), {"check": "sql"})
    assert because == "the question returned {id: 7} at pub"


def test_a_stale_read() -> None:
    read = ended(
        session="carol", node="sub1", step="c_read", rows=({"balance": 90},), tag="SELECT 1"
    )
    assert because_of(Fold(lost(read)), {"check": "steps.c_read"}) == (
        "sub1 held v2 of account id=1 when c_read read it",
        "the Publisher had v3 by then, by bob's b_write (balance 90 → 80)",
    )


@pytest.mark.parametrize(
    ("check", "because", "however"),
    [
        (
            "steps.b_write",
            "this copy of account id=1 was v1 and the Publisher had v2, which alice's a_write had made "
            "(balance 100 → 90)",
            "nothing had been brought to sub2 by then: its copy was as at first",
        ),
        (
            "tables.account",
            "account id=1 is v2 at the Publisher, as alice's a_write left it (balance 100 → 90)",
            "bob's b_write was refused, and changed nothing",
        ),
        ("sessions.alice", "every statement of alice was accepted, and it committed", ""),
    ],
)
def test_a_recorded_run(check: str, because: str, however: str) -> None:
    (_, order), *_ = by_order(records("lost_update"))
    assert because_of(Fold(order), {"check": check}) == (because, however)


def test_counts() -> None:
    (_, order), *_ = by_order(records("lost_update"))
    assert because_of(Fold(order), {"check": "committed"})[0] == "alice committed"
    told, _ = because_of(Fold(order), {"check": "rejected.version_mismatch"})
    assert told == "bob's b_write was refused as version_mismatch"
    told, _ = because_of(Fold(order), {"check": "rejected.deadlock"})
    assert told == "bob's b_write was refused as version_mismatch"
    quiet = made(sent("select 1"), ended(rows=(), rowcount=0))
    assert because_of(Fold(quiet), {"check": "rejected.deadlock"})[0] == "no step was refused"
    assert because_of(Fold(quiet), {"check": "committed"})[0] == "no session committed"


def test_older_histories_do_not_name_the_check() -> None:
    (_, order), *_ = by_order(records("failing"))
    (failure,) = order[-1].data["failures"]  # type: ignore[index] # a verdict
    assert because_of(Fold(order), failure)[0].startswith("account id=1 is v2")


def test_what_the_message_says_is_not_said_again() -> None:
    (_, order), *_ = by_order(records("stuck"))
    (failure,) = order[-1].data["failures"]  # type: ignore[index] # a verdict
    assert because_of(Fold(order), {**failure, "message": ""})[0].startswith("c_one waits at pub")
    assert because_of(Fold(order), failure) == ("", "")


def test_nothing_is_made_up() -> None:
    assert because_of(Fold(made()), {"check": "no_such_check"}) == ("", "")
    assert because_of(Fold(made()), {}) == ("", "")
    assert because_of(Fold([]), {"check": "converged"}) == ("", "")


def of_skew(name: str) -> Fold:
    """Return an order of two serializable transactions that each read what the other changes."""
    return Fold(dict(by_order(records("serializable_per_node")))[name])


@pytest.mark.parametrize(
    "check", ["steps.b_end", "sessions.bob", "rejected.serialization_failure", "sum"]
)
def test_serializable_at_two_nodes(check: str) -> None:
    """Both transactions commit because neither node knows what was read at the other.

    The reason says so, instead of claiming that nothing conflicted.
    """
    because, however = because_of(of_skew("at two Subscribers"), {"check": check})
    assert because == (
        "alice's a_look read saving id=1 at sub1, and bob's b_take changed it from sub2; bob's b_look read "
        "checking id=1 at sub2, and alice's a_take changed it from sub1: neither saw the other's change, and "
        "one after the other they could not have ended so"
    )
    assert however.startswith("serializable holds among the transactions of one node")


def test_serializable_at_one_node() -> None:
    """The reason for a serialization failure names the node that refused, and not a single row."""
    because, _ = because_of(of_skew("at one Subscriber"), {"check": "steps.c_end"})
    assert because == (
        "concurrent serializable transactions have read at sub1 what others of them changed, and one after the "
        "other they might not have ended so: alice's a_look read saving at sub1, and carol's c_take changed it; "
        "carol's c_look read checking at sub1, and alice's a_take changed it"
    )


def test_a_lock_of_a_copy() -> None:
    _, however = because_of(of_skew("locked at two Subscribers"), {"check": "steps.b_lock"})
    assert (
        however == "its lock is on the copy at sub2 alone: only a change is sent to the Publisher"
    )


def test_a_refusal_of_the_publisher_names_it() -> None:
    refused = ended(
        "rejected",
        message="could not serialize access due to read/write dependencies among transactions",
        conflict={"kind": "serialization_failure"},
        data={"at": "pub"},
    )
    assert (
        "have read at pub what others" in because_of(Fold(made(refused)), {"check": "steps.s"})[0]
    )
