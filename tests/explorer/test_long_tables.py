"""Tests of tables with many rows: checks, expectations and comparisons include the last row."""

from __future__ import annotations

from pathlib import Path

from tests.explorer.browsing import ExplorerPage
from twopc.sim.explore.difference import compared
from twopc.sim.explore.plays import OrderPlay, play
from twopc.sim.explore.wire.runs import PlayVariant
from twopc.sim.scenario import check

LAST = 201
ROWS = ", ".join(f"{{id: {number}, balance: 100}}" for number in range(1, LAST + 1))
TEXT = f"""\
twopc: 1
name: many_rows
about: Two clients change the last of many rows.
topology: {{publisher: pub, subscribers: [sub1, sub2]}}
tables:
  account: {{columns: {{id: int primary key, balance: int not null}}, rows: [{ROWS}]}}
sessions:
  alice:
    node: sub1
    steps:
      - a_begin: begin
      - a_write: {{sql: "update account set balance = balance - 10 where id = {LAST}"}}
      - a_end: commit
  bob:
    node: sub2
    steps:
      - b_begin: begin
      - b_write: {{sql: "update account set balance = balance * 2 where id = {LAST}"}}
      - b_end: commit
orders:
  - name: at once
    steps: [a_begin, b_begin, a_write, b_write, a_end, b_end]
    expect:
      steps: {{b_write: any}}
      sessions: {{bob: rolled back}}
      tables: {{account: {{sub2: {{same_as: pub}}}}}}
"""
AT_ONCE = ["a_begin", "b_begin", "a_write", "b_write", "a_end", "b_end"]
ALICE, BOB = ["a_begin", "a_write", "a_end"], ["b_begin", "b_write", "b_end"]
UNCHECKED = {"protection.version_check": "off"}


def variant(order: list[object], **switches: str) -> PlayVariant:
    return {"order": order, "switches": switches}  # type: ignore[typeddict-item]


def played(order: list[object], **switches: str) -> OrderPlay:
    return play(check.parse(TEXT, "many.twopc.yaml"), variant(order, **switches))


def test_a_lost_update_is_caught_and_shown() -> None:
    run = played([*AT_ONCE], **UNCHECKED).run
    (found,) = (each for each in run["invariants"] if each["name"] == "no_lost_update")
    assert not found["holds"]
    assert found["text"] == (
        f"bob (b_end) changed account id={LAST} from v1 at sub2, while pub had v2: that change is lost"
    )
    assert run["states"][0][f"row/pub/account/id={LAST}"]["values"]["balance"] == "100"


def test_what_a_switch_changes_is_told() -> None:
    was, now = variant([*AT_ONCE]), variant([*AT_ONCE], **UNCHECKED)
    before, after = (played([*AT_ONCE], **(each["switches"] or {})).run for each in (was, now))
    text = compared(before, was, after, now)
    assert f"at pub and sub1 account id={LAST} ends with balance 200 (before: 90)" in text


def test_other_rows_are_another_behaviour() -> None:
    """Two orders that leave different rows have different behaviours."""
    sync = {"sync": "everywhere"}
    one, other = played([*ALICE, sync, *BOB]), played([*BOB, sync, *ALICE])
    assert one.run["behaviour"] != other.run["behaviour"]


def test_expected_rows_are_compared() -> None:
    done = played([*AT_ONCE])
    assert done.verdict is not None
    assert done.verdict.failures == ()


def test_every_row_of_a_result_is_compared() -> None:
    """A result with more rows than expected does not match the expectation."""
    expected = ROWS.rpartition(", {")[0]
    text = TEXT.replace(
        "- a_end: commit",
        "- a_read: {sql: select * from account order by id}\n      - a_end: commit",
    )
    text = text[: text.index("orders:")] + (
        "orders:\n  - name: reads\n    steps: [a_begin, a_read, a_end]\n"
        f"    expect: {{steps: {{a_read: {{rows: [{expected}]}}}}}}\n"
    )
    loaded = check.parse(text, "many.twopc.yaml")
    done = play(loaded, {"order": ["a_begin", "a_read", "a_end"]})
    assert done.verdict is not None
    assert [each.check for each in done.verdict.failures] == ["steps.a_read"]


def test_a_page_leaves_out_only_rows_in_which_nothing_happens(
    page: ExplorerPage, folder: Path
) -> None:
    """A page omits only rows that no step changes, and shows their number."""
    rows = ", ".join(f"{{id: {number}, balance: 100}}" for number in range(1, 251))
    many = TEXT.replace(ROWS, rows).replace(f"where id = {LAST}", "where id = 250")
    (folder / "many.twopc.yaml").write_text(many, encoding="utf-8")
    page.play("many.twopc.yaml")
    page.look_at(0)
    assert "and 50 more rows, in which nothing has happened" in "".join(
        page.texts("#view-run table")
    )
    page.look_at(10**6)
    (row, *_) = page.run(
        "[...document.querySelectorAll('#view-run tbody tr')].map(e => e.innerText)"
        ".filter(text => text.startsWith('250'))"
    )
    assert "v2" in row
    assert "and 49 more rows, in which nothing has happened" in "".join(
        page.texts("#view-run table")
    )
