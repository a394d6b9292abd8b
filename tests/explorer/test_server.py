"""Tests of the answers of the explorer's server: files, and orders played on the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.explorer.server import ExploreProcess, explored, left

LOST = "immediate/lost_update.twopc.yaml"
WAITS = ["a_begin", "a_read", "b_begin", "b_read", "a_write", "b_write", "a_end", "b_end"]


def cards(answer: Any) -> dict[str, Any]:
    """Return the cards by step."""
    return {each["step"]: each for each in answer["run"]["cards"]}


def state_at(run: Any, moment: int) -> dict[str, Any]:
    """Return the state of everything at a moment."""
    state: dict[str, Any] = {}
    for delta in run["states"][: moment + 1]:
        state |= delta
    return {key: value for key, value in state.items() if value is not None}


def test_files_are_listed_and_described(server: ExploreProcess) -> None:
    """The plain list of files has names and orders; the checked list also has the steps."""
    glance = {each["path"]: each for each in server.get("/api/files")["files"]}
    checked = {each["path"]: each for each in server.get("/api/files?checked=1")["files"]}
    assert glance.keys() == checked.keys()
    for path, one in glance.items():
        assert (one["name"], one["orders"]) == (checked[path]["name"], checked[path]["orders"])
        assert one["about"] == checked[path]["about"]
    assert checked[LOST]["steps"] > 0
    scenario = server.get(f"/api/file?path={LOST}")["scenario"]
    assert [each["name"] for each in scenario["sessions"]] == ["alice", "bob"]
    assert "protection.version_check" in {each["name"] for each in scenario["switches"]}
    assert any(each["point"] == "coordinator.decision_logged" for each in scenario["fault_points"])


def test_a_step_that_waits_says_for_whom_and_a_refused_one_why(server: ExploreProcess) -> None:
    """The texts are those of the reports."""
    answer = server.play(LOST, WAITS)
    assert answer["run"]["possible"] is True
    write = cards(answer)["b_write"]
    assert write["state"] == "refused"
    assert write["waits_for"] == "alice (a_write) at pub"
    assert write["because"] == (
        "this copy of account id=1 was v1 and the Publisher had v2, which alice's a_write had made (balance 100 → 90)"
    )
    assert all(each["holds"] for each in answer["run"]["invariants"])


def test_every_moment_shows_the_nodes(server: ExploreProcess) -> None:
    """While alice commits, her branches are prepared, and bob waits for the row that she has changed."""
    run = server.play(LOST, WAITS)["run"]
    assert len(run["moments"]) == len(run["states"])
    for moment, delta in zip(run["moments"], run["states"], strict=True):
        assert moment["changed"] == list(delta)
    first = state_at(run, 0)["row/pub/account/id=1"]
    assert (first["values"]["balance"], first["label"]) == ("100", "v1")
    waits = next(at for at, each in enumerate(run["moments"]) if each["event"] == "waits")
    row = state_at(run, waits)["row/pub/account/id=1"]
    assert row["waiting"] == ["bob"]
    bob = state_at(run, waits)["session/bob"]
    assert (bob["node"], bob["text"]) == ("sub2", "b_write waits for alice (a_write) at pub")
    stale = {
        at: [
            node
            for node in ("sub1", "sub2")
            if state_at(run, at)[f"row/{node}/account/id=1"]["stale"]
        ]
        for at in range(len(run["moments"]))
    }
    assert ["sub2"] in stale.values()
    assert stale[0] == stale[len(stale) - 1] == []
    assert [(each["by"], each["values"]["balance"]) for each in row["uncommitted"]] == [
        ("alice", "90")
    ]
    assert state_at(run, waits)["lock/pub/bob"]["waits_for"] == ["alice"]
    seen = {key.split("/")[0] for delta in run["states"] for key in delta}
    assert {"prepared", "decision", "marker", "stored", "agent", "message", "reader"} <= seen
    assert state_at(run, len(run["moments"]))["reader"] == {"read": 1, "behind": 0}
    prepared = {
        key.split("/")[1] for delta in run["states"] for key in delta if key[:9] == "prepared/"
    }
    assert prepared == {"pub", "sub1"}
    last = state_at(run, len(run["moments"]) - 1)
    assert {
        last[f"row/{node}/account/id=1"]["values"]["balance"] for node in ("pub", "sub1", "sub2")
    } == {"90"}
    assert not [key for key in last if key.startswith(("prepared/", "lock/", "message/"))]


def test_without_the_version_check_the_update_is_lost(server: ExploreProcess) -> None:
    """The answer contains the effect of the switch, and the check that detects it."""
    off = {"protection.version_check": "off"}
    answer = server.play(LOST, WAITS, switches=off, before={"order": WAITS})
    assert cards(answer)["b_write"]["state"] == "waited"
    assert answer["run"]["story"][0] == "Here version_check is switched off."
    broken = {each["name"] for each in answer["run"]["invariants"] if not each["holds"]}
    assert broken == {"no_lost_update", "converged"}
    assert "With version check off, b_write waits and is accepted" in answer["compared"]
    assert "no_lost_update catches it" in answer["compared"]


@pytest.mark.parametrize(
    ("order", "at", "reason"),
    [
        (
            [*WAITS[:6], "b_end", "a_end"],
            6,
            "bob cannot go on: b_write waits at pub for alice (a_write)",
        ),
        (
            [*WAITS[:1], "a_write", *WAITS[1:4], *WAITS[5:]],
            1,
            "'a_write' uses :bal, which 'a_read' has not saved yet",
        ),
        (
            ["a_read", "a_begin", *WAITS[2:]],
            1,
            "'a_begin' runs after 'a_read', but session 'alice' lists it before",
        ),
    ],
)
def test_an_order_that_cannot_be_is_marked_where_it_stops(
    server: ExploreProcess, order: list[str], at: int, reason: str
) -> None:
    """An order stops at a step that waits for a lock, or that precedes an earlier step of its session."""
    run = server.play(LOST, order)["run"]
    assert run["possible"] == {"at": at, "reason": reason}
    states = {each["item"]: each["state"] for each in run["cards"]}
    assert states[at] == "not_played"
    assert "not_played" not in {state for item, state in states.items() if 0 <= item < at}


def test_a_fault_placed_at_a_point_strikes(server: ExploreProcess) -> None:
    """A coordinator that crashes after its decision is durable is followed by recovery, which commits."""
    clean = server.play(LOST, WAITS)["run"]
    assert "coordinator.decision_logged" in {each["point"] for each in clean["arrivals"]}
    fault = {"at": "coordinator.decision_logged", "do": "crash coordinator"}
    run = server.play(LOST, WAITS, faults=[fault])["run"]
    assert run["outcomes"]["alice"] == "in doubt"
    assert "fault" in {each["event"] for each in run["moments"]}
    assert [each["node"] for each in run["agents"] if each["kind"] == "settled"] == ["pub", "sub1"]


def test_what_cannot_be_is_refused_with_its_reason(server: ExploreProcess) -> None:
    """An invalid switch, value, step, order or text is refused with a reason; text errors have a line."""
    for more, words in (
        ({"switches": {"speed": "high"}}, "there is no switch 'speed'"),
        ({"switches": {"commit": "hope"}}, "commit is one of presumed_abort"),
        ({"order": ["c_write"]}, "no step 'c_write'"),
        ({"listed": "bob first"}, "there is no order 'bob first'; there is "),
    ):
        body = {"path": LOST, "order": WAITS, **more}
        status, value, _ = server.ask("POST", "/api/play", body)
        assert (status, value["kind"]) == (422, "switch")
        assert words in value["error"]
    text = server.get(f"/api/file?path={LOST}")["text"].replace("\nsessions:", "\nsesions:")
    described = server.post("/api/check", path=LOST, text=text)
    assert described["scenario"] is None
    line = text.splitlines().index("sesions:") + 1
    assert [each["line"] for each in described["errors"] if "sesions" in each["message"]] == [line]
    status, value, _ = server.ask("POST", "/api/play", {"path": LOST, "text": text, "order": WAITS})
    assert (status, value["kind"]) == (422, "scenario")


def test_what_the_model_does_not_know_is_marked_where_it_stands(server: ExploreProcess) -> None:
    """A statement that the model does not support is reported at its line, like an error in the file."""
    text = server.get(f"/api/file?path={LOST}")["text"]
    text = text.replace("set balance = :bal - 20", "set balance = pg_relation_size('account')")
    status, value, _ = server.ask("POST", "/api/play", {"path": LOST, "text": text, "order": WAITS})
    assert (status, value["kind"]) == (422, "scenario")
    line = next(at for at, each in enumerate(text.splitlines(), 1) if "pg_relation_size" in each)
    assert [each["line"] for each in value["errors"]] == [line]


def test_nothing_is_left_after_ctrl_c(folder: Path) -> None:
    """After Ctrl-C the command exits with 0, and none of its processes is left."""
    with explored(folder / LOST) as running:
        assert [each["path"] for each in running.get("/api/files")["files"]] == [Path(LOST).name]
        workers = running.workers()
        assert workers
        assert running.interrupt() == 0
        assert not left(workers)


def test_every_order_is_sorted_by_what_comes_of_it(server: ExploreProcess) -> None:
    """Orders are grouped by behaviour, with progress events, and counted as `twopc run` counts them."""
    events = server.events("/api/orders", path=LOST)
    assert events[0]["event"] == "progress"
    last = events[-1]
    assert (last["event"], last["why"], last["left_out"]) == ("done", "", 0)
    found = {each["behaviour"]["id"]: each["behaviour"] for each in events if "behaviour" in each}
    assert sum(each["count"] for each in found.values()) == last["run"]
    assert last["orders"] == 70
    assert all(each["holds"] for each in found.values())
    refused = {tuple(each["refused"]) for each in found.values()}
    assert {("b_write",), ("a_write",)} <= refused
    first = next(iter(found.values()))
    assert server.play(LOST, first["order"])["run"]["behaviour"] == first["id"]


def test_merging_shows_lineages_generations_and_what_sessions_bring(
    server: ExploreProcess,
) -> None:
    """Two columns of a row changed at two nodes are merged: its lineage includes both changes in the end."""
    path = "merge/columns_meet.twopc.yaml"
    order = server.get(f"/api/file?path={path}")["scenario"]["orders"][0]["steps"]
    run = server.play(path, order)["run"]
    last = state_at(run, len(run["moments"]) - 1)
    for node in ("pub", "anna", "ben"):
        row = last[f"row/{node}/customer/id=1"]["values"]
        assert row == {"id": "1", "phone": "2", "credit": "20"}
        lineage = last[f"metadata/{node}/customer/id=1"]["lineage"]
        assert lineage == {"anna": 1, "pub": 2}
    assert last["neighbour/pub/anna"]["received"] == last["neighbour/anna/pub"]["sent"]
    assert last["generation/pub/1"]["rows"] == 1
    brought = {
        (each["sender"], each["receiver"]) for each in run["messages"] if "rows" in each["text"]
    }
    assert brought == {("anna", "pub"), ("pub", "anna"), ("pub", "ben")}
    assert {each["kind"] for each in run["agents"]} == {"merge_session"}
