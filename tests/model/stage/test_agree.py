"""Tests of which differences between two stages count, and which do not."""

from __future__ import annotations

import dataclasses

import pytest

from tests.model.stage.toys import loaded, play
from twopc.sim.report.history import HistoryRecord
from twopc.sim.scenario.agree import compare, facts

GID = "twopc:model:1:{}"
V1, V2 = "0" * 8 + "-0000-4000-8000-" + "1" * 12, "0" * 8 + "-0000-4000-8000-" + "2" * 12


def record(kind, **fields):
    return HistoryRecord(**{"seq": 0, "t_us": 0, "kind": kind, "order": "one", **fields})


def state(node, version, moment="final", balance=90):
    rows = ({"id": "1", "balance": str(balance), "msrepl_tran_version": version},)
    data = {"table": "account", "moment": moment}
    return record("state", node=node, rows=rows, rowcount=1, data=data)


def story(number=1, version=V2):
    """Return the records of a transaction of alice: a change, a wait, a delivery and the final state."""
    gid = GID.format(number)
    wait = {"session": "alice", "step": "a_write", "node": "pub", "pid": number, "gid": ""}
    marker = {"gid": f"{gid}:pub", "fence": False, "participants": ["sub1"], "sent": True}
    return [
        state("pub", V1, "initial", 100),
        record("ok", session="alice", step="a_write", gid=gid, rowcount=1, tag="UPDATE 1"),
        record("blocked", session="bob", step="b_write", wait=wait),
        record("ok", session="alice", step="a_end", gid=gid, t_us=number),
        record("rejected", session="bob", step="b_write", conflict={"kind": "version_mismatch"}, number=20515),
        record("outcome", session="alice", message="committed"),
        record("deliver", node="sub2", gid=gid, data={"origin": "sub1", "commands": ["update account id=1"]}),
        record("prepared", node="pub", data={"gids": []}),
        record("markers", node="pub", data={"markers": [marker]}),
        state("pub", version),
        state("sub1", version),
    ]  # fmt: skip


def test_numbers_times_and_versions_do_not_count():
    other = V1.replace("1", "7"), V2.replace("2", "8")
    renamed = [
        dataclasses.replace(
            each, rows=tuple([{**row, "msrepl_tran_version": other[row["balance"] == "90"]} for row in each.rows])
        )
        if each.kind == "state"
        else each
        for each in story(7)
    ]  # fmt: skip
    assert compare(story(), renamed) == []


@pytest.mark.parametrize(
    ("place", "change", "about"),
    [
        (1, {"rowcount": 0}, "a_write"),
        (2, {"wait": {"session": "carol", "step": "c", "node": "pub"}}, "b_write's wait"),
        (2, {"wait": {"session": "alice", "step": "a_write", "node": "pub", "gid": "twopc:model:1:1:pub"}}, "b_write's wait"),
        (4, {"conflict": {"kind": "row_missing"}}, "b_write"),
        (4, {"number": 0}, "b_write"),
        (5, {"message": "rolled back"}, "alice"),
        (6, {"kind": "suppress"}, "what the agent of sub2 did"),
        (7, {"data": {"gids": ["twopc:model:1:1:pub"]}}, "prepared at pub at the end"),
        (8, {"data": {"markers": []}}, "marked at pub at the end"),
        (9, {"rows": ({"id": "1", "balance": "90", "msrepl_tran_version": V1},)}, "account at pub at the end"),
        (10, {"rows": ()}, "account at sub1 at the end"),
    ],
)  # fmt: skip
def test_what_counts(place, change, about):
    other = story()
    other[place] = dataclasses.replace(other[place], **change)
    differences = compare(story(), other)
    assert about in [each.about for each in differences]
    assert f"{about}: on here" in differences[0].text("here", "there") or len(differences) > 1


def test_what_transactions_are_called():
    """Transactions are named after their session, and branches also after their node."""
    whole = facts(story())
    assert "alice's first at pub" in whole["marked at pub at the end"]
    assert whole["what the agent of sub2 did"].startswith("applied alice's first ")
    other = story()
    gids = [f"{GID.format(1)}:pub", GID.format(9), "by hand"]
    other[7] = dataclasses.replace(other[7], data={"gids": gids})
    assert facts(other)["prepared at pub at the end"] == "alice's first at pub, by hand, somebody's"


def test_ordinals_of_transactions():
    """The number of a session's transaction is an English ordinal."""
    commits = [record("ok", session="alice", step="end", gid=GID.format(n)) for n in range(1, 114)]
    expected = {1: "first", 2: "second", 3: "third", 4: "4th", 10: "10th", 11: "11th", 12: "12th"}
    expected |= {
        13: "13th",
        21: "21st",
        22: "22nd",
        23: "23rd",
        24: "24th",
        101: "101st",
        111: "111th",
    }
    prepared = record(
        "prepared", node="pub", data={"gids": [f"{GID.format(n)}:pub" for n in expected]}
    )
    names = facts([*commits, prepared])["prepared at pub at the end"].split(", ")
    assert sorted(names) == sorted(f"alice's {word} at pub" for word in expected.values())


def test_a_version_that_one_node_has_and_the_other_has_not():
    """Two histories differ if other rows share a row version."""
    other = story()
    other[-1] = state("sub1", V1)
    (difference,) = compare(story(), other)
    assert difference.about == "account at sub1 at the end"
    assert ("v2" in difference.one, "v1" in difference.other) == (True, True)


def test_an_order_that_only_one_has():
    (difference,) = compare(story(), [])
    assert (difference.order, difference.text("here", "there")) == (
        "one",
        "one: on here it was played; on there it was not",
    )


def test_of_a_real_history():
    records = [each for each in play(loaded())[1].records if each.order]
    found = facts(records)
    assert found["b_write's wait"] == "for a a_write at pub"
    assert found["b_write"] == 'ok 1 rows [{"balance": 202}]'
    assert found["account at pub at the end"].startswith('1 [{"id": "1", "balance": "202"')
