"""Tests of exports: files that expect what was shown, and pass when they are played by command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.in_process import twopc
from tests.explorer.server import ExploreProcess
from tests.explorer.test_server import LOST, WAITS
from twopc.sim.scenario.check import parse

OFF = {"protection.version_check": "off"}
#: A shipped scenario, by the name that every command accepts.
CLOCK = "scenarios/proc_execution/clock_in_procedure.twopc.yaml"
#: An order made by hand: bob writes first, and commits before alice.
BY_HAND = ["a_begin", "b_begin", "b_read", "b_write", "a_read", "a_write", "b_end", "a_end"]


def exported(server: ExploreProcess, kind: str, order: list[Any], **more: Any) -> Any:
    """Return an export."""
    return server.post("/api/export", path=LOST, kind=kind, order=order, **more)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"switches": {"isolation": "repeatable read", "shipping": "lazy", "any_client": "on"}},
        {"switches": {"agents": "off", "commit": "presumed_nothing"}},
        {"switches": OFF},
        {"faults": [{"at": "coordinator.decision_logged", "do": "crash coordinator"}]},
    ],
    ids=["order", "switches", "no-agents", "protection", "fault"],
)
def test_a_scenario_expects_what_was_shown(
    server: ExploreProcess, tmp_path: Path, more: dict[str, Any]
) -> None:
    """An exported scenario passes by command, with the twin of the protection that was off."""
    made = exported(server, "scenario", BY_HAND, name="bob first", **more)
    assert made["remarks"] == []
    place = tmp_path / made["filename"]
    place.write_text(made["text"], encoding="utf-8")
    scenario = parse(made["text"]).scenario
    assert [each.name for each in scenario.orders] == ["bob first"]
    assert len(scenario.twins) == ("switches" in more and more["switches"] == OFF)
    expect = scenario.orders[0].expect
    assert expect.sessions
    assert expect.tables or "faults" in more
    done = twopc("run", str(place), "--on", "model", "--out", str(tmp_path / "runs"))
    assert done.returncode == 0, done.stdout


def test_an_order_that_cannot_be_is_not_exported(server: ExploreProcess) -> None:
    """The error states the reason."""
    body = {"path": LOST, "kind": "scenario", "order": [*WAITS[:6], "b_end", "a_end"]}
    status, value, _ = server.ask("POST", "/api/export", body)
    assert status == 422
    assert "this order cannot be" in value["error"]


@pytest.mark.postgres
def test_exported_tests_pass(server: ExploreProcess, tmp_path: Path) -> None:
    """Exported tests pass with plain pytest on servers: one with a placed fault, one that reads the clock."""
    fault = {"at": "coordinator.decision_logged", "do": "crash coordinator"}
    clock = {"path": CLOCK, "order": ["o_close", "r_sync"], "kind": "pytest"}
    for number, made in enumerate(
        (
            exported(server, "pytest", BY_HAND, faults=[fault]),
            server.post("/api/export", **clock),
        )
    ):
        (tmp_path / f"{number}_{made['filename']}").write_text(made["text"], encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    names = sorted(each.name for each in tmp_path.iterdir())
    done = subprocess.run([*command, *names], cwd=tmp_path, capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_a_page_and_a_link_are_exported(server: ExploreProcess) -> None:
    """An exported page needs no server; an exported link opens the same run, without a token."""
    page = exported(server, "html", WAITS, switches=OFF)
    assert page["text"].startswith("<!DOCTYPE html>")
    assert "no_lost_update" in page["text"]
    link = exported(server, "link", WAITS, switches=OFF)["text"]
    assert link.startswith(f"http://127.0.0.1:{server.port}/#file=immediate%2Flost_update")
    assert server.token not in link


def test_templates_can_be_played(server: ExploreProcess) -> None:
    """Each listed order of every template plays as expected."""
    templates = server.get("/api/templates")["templates"]
    assert len(templates) >= 4
    for each in templates:
        content = server.post("/api/check", path="new.twopc.yaml", text=each["text"])
        assert content["errors"] == []
        for order in content["scenario"]["orders"]:
            run = server.play("new.twopc.yaml", order["steps"], text=each["text"])["run"]
            assert (run["possible"], run["failures"]) == (True, [])


def test_a_static_export_holds_every_listed_order(folder: Path, tmp_path: Path) -> None:
    """A static export is deterministic, and does not overwrite a folder with other content."""
    target = tmp_path / "export"
    done = twopc("explore", str(folder), "--export", str(target))
    assert done.returncode == 0, done.stdout + done.stderr
    data = target / "data"
    index = json.loads((data / "index.json").read_text(encoding="utf-8"))
    assert index["listing"]["read_only"] is True
    for file in index["files"]:
        content = json.loads((data / file["file"]).read_text(encoding="utf-8"))
        names = [each["name"] for each in content["scenario"]["orders"]]
        assert [each["name"] for each in file["orders"]] == names
        for order, listed in zip(file["orders"], content["scenario"]["orders"], strict=True):
            answer = json.loads((data / order["play"]).read_text(encoding="utf-8"))
            assert answer["run"]["order"] == listed["steps"]
            assert answer["listed"] == listed["name"]  # another order may have the same steps
            assert (answer["run"]["possible"], answer["run"]["failures"]) == (True, [])
    assert (target / "index.html").exists()
    assert not list(target.rglob("package.json"))
    seen = {place: place.read_bytes() for place in target.rglob("*") if place.is_file()}
    assert twopc("explore", str(folder), "--export", str(target)).returncode == 0
    assert seen == {place: place.read_bytes() for place in target.rglob("*") if place.is_file()}
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "index.json").write_text("mine, too", encoding="utf-8")
    assert twopc("explore", str(folder), "--export", str(tmp_path)).returncode != 0
    assert (tmp_path / "data" / "index.json").read_text(encoding="utf-8") == "mine, too"


def test_a_static_export_shows_what_cannot_be_read_with_its_reason(
    folder: Path, tmp_path: Path
) -> None:
    """An unreadable file is exported with its error. An export replaces an earlier one.

    A single file can also be exported.
    """
    opened, target = tmp_path / "opened", tmp_path / "export"
    opened.mkdir()
    good = opened / "good.twopc.yaml"
    good.write_bytes((folder / LOST).read_bytes())
    assert twopc("explore", str(good), "--export", str(target)).returncode == 0
    whole = json.loads((target / "data" / "index.json").read_text(encoding="utf-8"))
    assert [each["path"] for each in whole["files"]] == [good.name]
    (opened / "latin.twopc.yaml").write_bytes(b"name: \xe9\n")
    done = twopc("explore", str(opened), "--export", str(target))
    assert done.returncode == 0, done.stderr
    why = "latin.twopc.yaml:1:7: error: byte 0xe9 is not UTF-8: save the file in UTF-8"
    assert done.stderr.strip() == f"without its orders: {why}"
    index = json.loads((target / "data" / "index.json").read_text(encoding="utf-8"))
    assert index["files"][0] == whole["files"][0]
    content = json.loads((target / "data" / index["files"][1]["file"]).read_text(encoding="utf-8"))
    assert [each["message"] for each in content["errors"]] == [why]
    assert index["listing"]["files"][1]["error"] == content["errors"][0]
    assert not list(target.glob(".new*"))


def test_what_a_scenario_takes_from_others_is_exported_with_it(
    server: ExploreProcess, tmp_path: Path
) -> None:
    """An export includes the files that its scenario extends, with the switches applied."""
    text = f"twopc: 1\nname: child\nabout: a child\nextends: {Path(LOST).name}\n"
    body = {"path": "immediate/child.twopc.yaml", "text": text, "order": BY_HAND, "name": "own"}
    switches = {"commit": "presumed_nothing"}
    made = server.post("/api/export", **body, kind="scenario", switches=switches)
    assert made["remarks"] == []
    place = tmp_path / made["filename"]
    place.write_text(made["text"], encoding="utf-8")
    scenario = parse(made["text"]).scenario
    assert (scenario.name, scenario.topology.commit) == ("child", "presumed_nothing")
    done = twopc("run", str(place), "--on", "model", "--out", str(tmp_path / "runs"))
    assert done.returncode == 0, done.stdout


def test_what_was_exported_with_a_fault_takes_another(server: ExploreProcess) -> None:
    """A second fault gets a name of its own."""
    faults = [{"at": "coordinator.decision_logged", "do": "crash coordinator"}]
    first = exported(server, "scenario", BY_HAND, faults=faults)["text"]
    text = exported(server, "scenario", BY_HAND, listed="by hand", faults=faults, text=first)[
        "text"
    ]
    scenario = parse(text).scenario
    assert [each.id for each in scenario.faults] == ["placed_1", "placed_2"]
    assert scenario.orders[0].faults == ("placed_1", "placed_2")


def test_what_the_clock_decides_is_not_expected(server: ExploreProcess) -> None:
    """Values that depend on the clock are not expected, and the file says which are left out."""
    body = {"path": CLOCK, "order": ["o_close", "r_sync"], "kind": "scenario"}
    made = server.post("/api/export", **body)
    why = "Not expected, because the clock or chance decides it: orders.closed_at."
    assert made["remarks"] == [why]
    assert made["text"].startswith(f"# {why}\n")
    assert "orders: {everywhere: [{id: 1}, {id: 2}]}" in made["text"]
    assert "closed_at" not in made["text"].partition("\norders:")[2]


def test_names_and_texts_may_have_any_characters(server: ExploreProcess) -> None:
    """Any characters in names and texts survive: the scenario can be read, and the test is Python."""
    text = server.get(f"/api/file?path={LOST}")["text"]
    text = text.replace("name: lost-update", f"name: x²{'n' * 250}")
    text = re.sub(r"about: >\n(  .*\n)+", lambda _: r'about: "\0 \x1b \"\"\" \\"' + "\n", text)
    name = 'a\0\x1b\n\x7f\x85\u2028"\\\ufeff💥'
    body = {"path": LOST, "text": text, "order": BY_HAND, "name": name}
    made = server.post("/api/export", **body, kind="scenario")
    assert [each.name for each in parse(made["text"]).scenario.orders] == [name]
    made = server.post("/api/export", **body, kind="pytest")
    assert len(made["filename"].encode()) < 255
    names: dict[str, Any] = {}
    exec(compile(made["text"], made["filename"], "exec"), names)
    assert [each.name for each in parse(names["SCENARIO"]).scenario.orders] == [name]
    assert Path(made["filename"]).stem in names
