"""Tests of a page written by `twopc explore --export`, read from a plain file server."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.explorer.browsing import ExplorerPage
from tests.report.browser.chromium import Browser


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Discard the message."""


@pytest.fixture(scope="module")
def address(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the exported page, which is below a folder of its server."""
    served = tmp_path_factory.mktemp("served")
    command = [
        sys.executable,
        "-m",
        "twopc.sim",
        "explore",
        str(folder),
        "--export",
        str(served / "class"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Quiet, directory=str(served))
    ) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/class/#"
        server.shutdown()


def test_listed_orders_are_looked_into_without_a_server(chromium: Browser, address: str) -> None:
    """An exported page shows all moments of listed orders, but moves, switches, saves nothing."""
    page = ExplorerPage(chromium, address)
    page.play("immediate/lost_update.twopc.yaml")
    assert "waits for alice (a_write) at pub" in page.card("b_write")
    page.moment_of("b_write waits for alice")
    assert "bob waits for alice" in page.text(".node")
    assert page.run("document.querySelector('.grip, .switches, #undo')") is None
    order = page.order()
    page.browser.drag("[data-key=b_write]", "[data-key=a_begin]")
    assert page.order() == order

    page.run(
        "(() => { const e = document.querySelector('#order'); e.value = 'alice changes her mind';"
        "e.dispatchEvent(new Event('change')); })()"
    )
    page.after(".outcome", "bob committed")

    strict = "at the same time, serializable"  # another order has the same steps
    page.play("immediate/write_skew.twopc.yaml", f"&name={quote(strict)}")
    assert page.run("document.querySelector('#order').value") == strict
    assert page.text(".outcome") == "Ada committed; grace is rolled back."
    page.complains_of_nothing()


def test_lessons_are_answered_without_a_server(chromium: Browser, address: str) -> None:
    page = ExplorerPage(chromium, address)
    page.open("lesson=1")
    page.browser.until("document.querySelector('.question form')")
    page.run("document.querySelectorAll('.question label')[1].click()")
    page.run("document.querySelector('.question [type=submit]').click()")
    page.after(".verdict", "Not as you expected")
    page.complains_of_nothing()
