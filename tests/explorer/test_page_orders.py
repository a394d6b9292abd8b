"""Tests of the map of all orders."""

from __future__ import annotations

from pathlib import Path

from tests.explorer.browsing import ExplorerPage

LOST_UPDATE = "immediate/lost_update.twopc.yaml"
#: Steps with so many orders that playing all of them takes too long.
LONG = "".join(
    f"""  s{number}:
    node: sub{number}
    steps:
      - s{number}_begin: begin
      - s{number}_write: {{sql: "update account set balance = balance + 1 where id = 1"}}
      - s{number}_more: {{sql: "update account set balance = balance + 1 where id = 1"}}
      - s{number}_end: commit
"""
    for number in (1, 2, 3)
)


def test_every_order_is_a_map_that_is_clicked_through(page: ExplorerPage) -> None:
    """Each tile shows a behaviour and its number of orders; a click shows one of them."""
    page.play(LOST_UPDATE)
    page.click("#tab-orders")
    page.browser.until("!document.querySelector('#orders-stop') && document.querySelector('.tile')")

    counted = page.text("#orders-count")
    assert "70 orders" in counted
    tiles = page.texts(".tile-text")
    assert len(tiles) > 1
    assert len(set(tiles)) > 1
    came_to = [each.split("played, as")[0] for each in page.texts(".tile")]
    assert len(set(came_to)) == len(came_to)  # the texts of the tiles differ
    assert any("b_write waits for alice (a_write) at pub" in each for each in came_to)
    page.click(".tile[aria-pressed=false]")
    page.browser.until("document.querySelector('.tile[aria-pressed=true]')")
    pressed = page.run("document.querySelector('.tile[aria-pressed=true] .tile-text').innerText")
    page.after(".chosen-order .outcome", pressed)

    page.click("#tab-run")
    page.settled()
    assert page.text(".outcome") == pressed


def test_a_map_that_takes_long_is_stopped(page: ExplorerPage, folder: Path) -> None:
    path = folder / "long.twopc.yaml"
    path.write_text(
        "twopc: 1\nname: long\nabout: Three clients.\n"
        "topology: {publisher: pub, subscribers: [sub1, sub2, sub3]}\n"
        "tables: {account: {columns: {id: int primary key, balance: int}, rows: [{id: 1, balance: 1}]}}\n"
        f"sessions:\n{LONG}"
        "orders:\n  - name: one\n    steps: ["
        + ", ".join(
            f"s{one}_{step}" for one in (1, 2, 3) for step in ("begin", "write", "more", "end")
        )
        + "]\n",
        encoding="utf-8",
    )
    try:
        page.open("file=long.twopc.yaml&view=orders")
        page.click("#orders-stop")
        page.after(".progress", "Stopped.")
        assert page.run("document.querySelector('#orders-stop')") is None
        page.click("#tab-run")  # the run view still works
        page.settled()
    finally:
        path.unlink()
