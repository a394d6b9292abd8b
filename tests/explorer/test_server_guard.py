"""Tests of access control, of reading and writing outside the folder, and of plays that do not end."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest

from tests.explorer.server import WAIT_S, ExploreProcess, explored, left
from tests.explorer.test_server import LOST, WAITS
from twopc.server.polling import wait_for

#: CPU time that a process reaches only with an endless play: more than its start takes.
_BUSY_S = 2.0
#: A step that never ends: a loop in a routine of the scenario.
ENDLESS = """
twopc: 1
name: endless
about: A routine that loops for ever.
topology: {publisher: pub, subscribers: [sub1]}
tables:
  account:
    columns: {id: int primary key, balance: int not null}
    rows: [{id: 1, balance: 100}]
procedures:
  spin:
    body: |
      create procedure spin() language plpgsql as $$ begin loop null; end loop; end $$
sessions:
  alice:
    node: pub
    steps:
      - a_spin: {call: spin}
orders:
  - {name: for ever, steps: [a_spin]}
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[ExploreProcess, Path]]:
    """A server of an empty folder, and the folder."""
    folder = tmp_path / "opened"
    folder.mkdir()
    with explored(folder) as running:
        yield running, folder


@pytest.mark.parametrize(
    ("headers", "status", "kind"),
    [
        ({"X_Twopc_Token": ""}, 403, "token"),
        ({"X_Twopc_Token": "guessed"}, 403, "token"),
        ({"Host": "explorer.example:80"}, 421, "origin"),
        ({"Origin": "http://elsewhere.example"}, 403, "origin"),
        ({"Origin": "null"}, 403, "origin"),
        ({"Sec_Fetch_Site": "cross-site"}, 403, "origin"),
    ],
)
def test_strangers_are_refused(
    server: ExploreProcess, headers: dict[str, str], status: int, kind: str
) -> None:
    """A request without the token, for another host, or from another origin is refused."""
    seen, value, _ = server.ask("GET", "/api/files", None, **headers)
    assert (seen, value["kind"]) == (status, kind)


def test_every_answer_has_the_policy(server: ExploreProcess) -> None:
    """Every response has a content security policy that forbids content of other origins."""
    for path in ("/", "/api/files", "/nothing"):
        _, _, headers = server.ask("GET", path)
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
    assert server.ask("GET", "/", None, X_Twopc_Token="")[0] == 200
    status, _, _ = server.ask("GET", "/..%2f..%2fapp.py")
    assert status == 404


def test_nothing_outside_of_the_folder_is_read_or_written(
    own: tuple[ExploreProcess, Path],
) -> None:
    """Neither dots, absolute paths nor links lead outside the folder."""
    running, folder = own
    outside = folder.parent / "secret"
    outside.mkdir()
    (outside / "x.twopc.yaml").write_text("secret", encoding="utf-8")
    (folder / "link.twopc.yaml").symlink_to(outside / "x.twopc.yaml")
    (folder / "deep").symlink_to(outside)
    for path in (
        "../other.twopc.yaml", "/etc/passwd", "sub/../../x.twopc.yaml", "link.twopc.yaml",
        "deep/x.twopc.yaml", "x.yaml", "a\\b.twopc.yaml", "",
    ):  # fmt: skip
        status, value, _ = running.ask("GET", f"/api/file?path={quote(path)}")
        assert (status, value["kind"]) == (403, "path"), path
        body = {"path": path, "text": "changed", "base_version": ""}
        assert running.ask("PUT", "/api/file", body)[0] == 403, path
    assert (outside / "x.twopc.yaml").read_text(encoding="utf-8") == "secret"
    assert running.get("/api/files")["files"] == []


def test_a_pipe_keeps_nobody_waiting(own: tuple[ExploreProcess, Path]) -> None:
    """A pipe is not opened for reading, which would block until a writer opens it."""
    running, folder = own
    os.mkfifo(folder / "pipe.twopc.yaml")
    assert running.get("/api/files")["files"] == []
    status, value, _ = running.ask("GET", "/api/file?path=pipe.twopc.yaml")
    assert (status, value["error"]) == (
        404,
        "pipe.twopc.yaml: cannot read it: it is no regular file",
    )


def test_two_tabs_do_not_lose_each_others_changes(own: tuple[ExploreProcess, Path]) -> None:
    """The second save of one version gets a conflict; a file behind a link keeps its mode and its link."""
    running, folder = own
    (folder / "real").mkdir()
    place = folder / "real" / "x.twopc.yaml"
    place.write_text("twopc: 1\n", encoding="utf-8")
    place.chmod(0o640)
    (folder / "x.twopc.yaml").symlink_to(place)
    opened = running.get("/api/file?path=x.twopc.yaml")
    assert opened["errors"]
    first = {"path": "x.twopc.yaml", "text": "first\n", "base_version": opened["version"]}
    status, saved, _ = running.ask("PUT", "/api/file", first)
    assert status == 200
    status, value, _ = running.ask("PUT", "/api/file", {**first, "text": "second\n"})
    assert (status, value["kind"], value["version"]) == (409, "changed", saved["version"])
    assert place.read_text(encoding="utf-8") == "first\n"
    assert place.stat().st_mode & 0o777 == 0o640
    assert (folder / "x.twopc.yaml").is_symlink()
    new = {"path": "real/x.twopc.yaml", "text": "third\n", "base_version": ""}
    assert running.ask("PUT", "/api/file", new)[0] == 409
    assert sorted(each.name for each in folder.rglob("*") if each.is_file()) == ["x.twopc.yaml"] * 2


def test_a_play_that_nobody_waits_for_ends(own: tuple[ExploreProcess, Path]) -> None:
    """An endless play whose client disconnects is ended, and the requests of other clients succeed."""
    running, _ = own
    first = running.workers()
    connection = running.connection()
    endless = {"path": "endless.twopc.yaml", "text": ENDLESS, "order": ["a_spin"]}
    running.send(connection, "POST", "/api/play", endless)
    wait_for(
        lambda: any(each.cpu_times().user > _BUSY_S for each in first),
        what="the play",
        timeout_s=WAIT_S,
    )
    with ThreadPoolExecutor() as others:
        check = {"path": "a.twopc.yaml", "text": "twopc: 1"}
        waits = [others.submit(running.ask, "POST", "/api/check", check) for _ in range(3)]
        wait_for(lambda: all(each.running() for each in waits), what="the others", timeout_s=WAIT_S)
        connection.close()
        psutil.wait_procs(first, WAIT_S)
        assert [each.result(WAIT_S)[0] for each in waits] == [200] * 3
    assert running.post("/api/check", path="a.twopc.yaml", text="twopc: 1")["errors"]


def test_a_process_that_dies_is_replaced(folder: Path) -> None:
    """When a worker is killed, at most its request fails with a reason, and the next one succeeds."""
    with explored(folder) as running, ThreadPoolExecutor() as others:
        (worker,) = running.workers()
        worker.suspend()
        asked = others.submit(running.ask, "POST", "/api/play", {"path": LOST, "order": WAITS})
        waits = others.submit(running.ask, "POST", "/api/play", {"path": LOST, "order": WAITS})
        wait_for(lambda: asked.running() and waits.running(), what="the play", timeout_s=WAIT_S)
        os.kill(worker.pid, signal.SIGKILL)
        answers = [each.result(WAIT_S) for each in (asked, waits)]
        refused = [value for status, value, _ in answers if status != 200]
        assert all(each["kind"] == "died" for each in refused)
        assert len(refused) <= 1
        assert running.play(LOST, WAITS)["run"]["possible"] is True


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b"", "the request: Invalid JSON"),
        (b"[1]", "the request: Input should be an object"),
        (b"[" * 100_000, "the request: Invalid JSON: recursion limit"),
        (b'{"order": []}', "'path' of the request: Field required"),
        (b'{"path": 7, "order": []}', "'path' of the request"),
        (b'{"path": "a\\ud800.twopc.yaml", "order": []}', "the request: Invalid JSON"),
        (b'{"path": "a\xff.twopc.yaml", "order": []}', "the request: Invalid JSON"),
        (b'{"path": "a", "order": 5}', "'order' of the request"),
        (b'{"path": "a", "order": ["a", 5]}', "'order.1' of the request"),
        (b'{"path": "a", "order": [], "switches": [1]}', "'switches' of the request"),
        (b'{"path": "a", "order": [], "faults": [{"at": 1}]}', "'faults.0.at' of the request"),
        (b'{"path": "a", "order": [], "before": 5}', "'before' of the request"),
    ],
    ids=lambda each: repr(each[:40]) if isinstance(each, bytes) else "",
)
def test_a_strange_request_is_refused(server: ExploreProcess, body: bytes, place: str) -> None:
    """An invalid request is refused with a reason and the place of the error."""
    connection = server.connection()
    headers = {"X-Twopc-Token": server.token, "Content-Type": "application/json"}
    connection.request("POST", "/api/play", body, headers)
    answer = connection.getresponse()
    value = json.loads(answer.read())
    assert (answer.status, value["kind"]) == (400, "request")
    assert value["error"].startswith(place)
    connection.close()


def test_a_question_has_a_number(server: ExploreProcess) -> None:
    """A question is a number of at most a certain length."""
    for number in ("one", "-1", "", "9" * 5_000):
        status, value, _ = server.ask("GET", f"/api/lessons/answer?lesson=1&question={number}")
        assert (status, value["kind"]) == (400, "request")
        assert value["error"].startswith("'question' of the request")


def test_a_key_of_a_request_is_none_of_the_workers_protocol(server: ExploreProcess) -> None:
    """Extra keys of a request do not reach the protocol of the workers."""
    body = {"path": "a.twopc.yaml", "text": "twopc: 1", "stop": 7, "id": 7, "do": "templates"}
    for _ in range(2):
        assert server.post("/api/check", **body)["text"] == "twopc: 1"


def test_it_ends_though_a_play_does_not(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C ends endless plays of one order and of all orders, without remaining processes or errors."""
    with explored(tmp_path) as running:
        workers = running.workers()
        endless = {"path": "endless.twopc.yaml", "text": ENDLESS, "order": ["a_spin"]}
        connections = [running.connection(), running.connection()]
        for connection, where in zip(connections, ("/api/play", "/api/orders"), strict=True):
            running.send(connection, "POST", where, endless)
        wait_for(
            lambda: any(each.cpu_times().user > _BUSY_S for each in workers),
            what="the play",
            timeout_s=WAIT_S,
        )
        assert running.interrupt() == 0
        assert not left(workers)
        answers = [each.getresponse() for each in connections]
        assert [each.status for each in answers] == [503, 200]
        assert all(b'"stopped"' in each.read() for each in answers)
        for connection in connections:
            connection.close()
    assert capfd.readouterr().err == ""
