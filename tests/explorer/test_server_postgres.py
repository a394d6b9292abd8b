"""Tests of playing the shown order on servers and comparing it with the model."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from tests.explorer.conftest import SHIPPED
from tests.explorer.server import WAIT_S, ExploreProcess, explored, left
from tests.explorer.test_server import LOST, WAITS, cards
from twopc.server.polling import wait_for

SKEW = "immediate/write_skew.twopc.yaml"

pytestmark = pytest.mark.postgres


def servers(explorer: ExploreProcess) -> list[psutil.Process]:
    """Return the first process of each PostgreSQL server."""
    results = []
    for each in explorer.workers():
        with suppress(psutil.NoSuchProcess):
            if each.name() == "postgres" and "-D" in each.cmdline():
                results.append(each)
    return results


def test_servers_agree_with_the_model_and_stay_warm(server: ExploreProcess) -> None:
    """Orders, one without the version check, agree with the model, and the server is reused.

    Without the check the update is lost on both. One order is chosen by its name.
    """
    first = server.post("/api/postgres", path=LOST, order=WAITS)
    assert (first["first_difference"], first["run"]["on"]) == (None, "postgres")
    assert cards(first)["b_write"]["state"] == "refused"
    assert cards(first)["b_write"]["waits_for"] == "alice (a_write) at pub"
    first_pids = {each.pid for each in servers(server)}
    off = {"protection.version_check": "off"}
    second = server.post("/api/postgres", path=LOST, order=WAITS, switches=off)
    assert second["first_difference"] is None
    broken = {each["name"] for each in second["run"]["invariants"] if not each["holds"]}
    assert "no_lost_update" in broken
    orders = server.get(f"/api/file?path={SKEW}")["scenario"]["orders"]
    strict = next(each for each in orders if each["name"] == "at the same time, serializable")
    third = server.post("/api/postgres", path=SKEW, order=strict["steps"], listed=strict["name"])
    assert third["first_difference"] is None
    assert third["run"]["outcomes"] == {"ada": "committed", "grace": "rolled back"}
    assert first_pids
    assert first_pids & {each.pid for each in servers(server)}


def test_what_servers_cannot_do_is_refused(server: ExploreProcess) -> None:
    """A protection that servers cannot switch off is refused with its reason."""
    body = {"path": LOST, "order": WAITS, "switches": {"protection.fence": "off"}}
    status, value, _ = server.ask("POST", "/api/postgres", body)
    assert (status, value["kind"]) == (422, "switch")
    assert "fence cannot be switched off on real servers: it keeps out a request" in value["error"]


def test_a_run_on_servers_is_stopped_and_nothing_is_left(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A run that is stopped early leaves no server, the next run is complete, and Ctrl-C ends another."""
    body = {"path": LOST, "order": WAITS}
    with explored(folder) as running:
        stopped = running.connection()
        running.send(stopped, "POST", "/api/postgres", body)
        wait_for(
            lambda: [each for each in running.workers() if "postgres" in each.name()],
            what="a server",
            timeout_s=WAIT_S,
        )
        stopped.close()
        assert running.post("/api/postgres", **body)["first_difference"] is None
        wait_for(
            lambda: len(servers(running)) == 1, what="the end of the other one", timeout_s=WAIT_S
        )
        processes = running.workers()
        with closing(running.connection()) as connection:
            running.send(connection, "POST", "/api/postgres", body)
            assert running.interrupt() == 0
            assert not left(processes)
            answer = connection.getresponse()
            assert answer.status == 200 or b'"stopped"' in answer.read()
    assert capfd.readouterr().err == ""


def test_servers_that_have_died_are_replaced(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A play on a killed server is refused with the reason, and the next one gets a new server."""
    body = {"path": LOST, "order": WAITS}
    with explored(folder) as running:
        assert running.post("/api/postgres", **body)["first_difference"] is None
        (server,) = servers(running)
        server.kill()
        psutil.wait_procs([server], WAIT_S)
        status, value, _ = running.ask("POST", "/api/postgres", body)
        assert status == 422
        assert value["error"].endswith("\nThe next order is played on servers anew.")
        assert running.post("/api/postgres", **body)["first_difference"] is None
        processes = running.workers()
        assert running.interrupt() == 0
        assert not left(processes)
    assert capfd.readouterr().err == ""


def test_who_agrees_has_waited_alike(server: ExploreProcess) -> None:
    """Agreement includes waits, even for a paused coordinator, which is no session of the scenario."""
    text = (SHIPPED / "transactional/snapshot_while_writing.twopc.yaml").read_text(encoding="utf-8")
    path = "waiting.twopc.yaml"
    (order,) = (
        each
        for each in server.post("/api/check", path=path, text=text)["scenario"]["orders"]
        if each["name"] == "open during the copy"
    )
    paused = [{"at": "proc.before_compare", "do": "pause coordinator"}]
    chosen = {"path": path, "text": text, "order": order["steps"], "listed": order["name"]}
    answer = server.post("/api/postgres", **chosen, faults=paused)
    states = [
        {each["step"]: each["state"] for each in answer[side]["cards"]} for side in ("model", "run")
    ]
    differing = [step for step in states[0] if states[0][step] != states[1][step]]
    difference = answer["first_difference"]
    assert ([] if difference is None else [difference["step"]]) == differing[:1]
