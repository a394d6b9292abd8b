"""Tests of unreadable files, invalid names, texts that cannot be saved, and concurrent saves."""

from __future__ import annotations

import codecs
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.explorer.conftest import SHIPPED
from tests.explorer.server import ExploreProcess
from twopc.sim.explore import model_worker
from twopc.sim.explore.folder import (
    ChangedError,
    MissingError,
    OpenFolder,
    OutsideError,
    version_of,
)
from twopc.sim.explore.model_worker import ModelBench
from twopc.sim.scenario.scenario_files import BYTES_MAX

LOST = (SHIPPED / "immediate/lost_update.twopc.yaml").read_text(encoding="utf-8")
#: Id of a user who owns no file.
_NOBODY = 65534


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one scenario, to which tests add files."""
    made = tmp_path_factory.mktemp("explored")
    (made / "good.twopc.yaml").write_text(LOST, encoding="utf-8")
    return made


@contextmanager
def a_folder_of_somebody_else() -> Iterator[Path]:
    """Yield a folder that this user may not write; root becomes another user meanwhile."""
    user = os.geteuid()
    codecs.lookup("utf-8-sig")  # the other user may not be able to read the installation
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "closed").mkdir(mode=0o000)
        (Path(name) / "good.twopc.yaml").write_text(LOST, encoding="utf-8")
        (Path(name) / "secret.twopc.yaml").touch(mode=0o000)
        os.chmod(name, 0o555)
        if user == 0:
            os.seteuid(_NOBODY)
        try:
            yield Path(name)
        finally:
            os.seteuid(user)
            os.chmod(name, 0o755)


@pytest.fixture
def strange(folder: Path) -> Iterator[dict[str, str]]:
    """Files that cannot be read, by their path as shown, each with words of the reason."""
    (folder / "loop.twopc.yaml").symlink_to("loop.twopc.yaml")
    (folder / "nowhere.twopc.yaml").symlink_to("nothing.twopc.yaml")
    (folder / "long.twopc.yaml").write_text("#" * (BYTES_MAX + 1), encoding="utf-8")
    (folder / "latin.twopc.yaml").write_bytes(b"name: \xe9\n")
    odd = os.fsencode(folder) + b"/\xff.twopc.yaml"
    Path(os.fsdecode(odd)).write_text(LOST, encoding="utf-8")
    yield {
        "\\xff.twopc.yaml": "its name is not UTF-8",
        "latin.twopc.yaml": "byte 0xe9 is not UTF-8",
        "long.twopc.yaml": f"over {BYTES_MAX} bytes",
        "loop.twopc.yaml": "symbolic links",
        "nowhere.twopc.yaml": "No such file",
    }
    for each in folder.iterdir():
        if each.name != "good.twopc.yaml":
            each.unlink()


@pytest.mark.parametrize("how", ["", "?checked=1"])
def test_what_cannot_be_read_is_listed_with_its_reason(
    server: ExploreProcess, strange: dict[str, str], how: str
) -> None:
    """Unreadable files are listed beside the others, each with its reason."""
    files = {each["path"]: each for each in server.get(f"/api/files{how}")["files"]}
    assert files.pop("good.twopc.yaml")["error"] is None
    assert files.keys() == strange.keys()
    for path, words in strange.items():
        assert words in files[path]["error"]["message"]
        assert server.ask("GET", f"/api/file?path={quote(path)}")[0] in (403, 404)


def test_what_somebody_else_keeps_closed_is_listed_with_its_reason() -> None:
    """A file and a folder without permission are listed, and saving into such a folder fails."""
    with a_folder_of_somebody_else() as place:
        opened = OpenFolder(place)
        errors = {each["path"]: each["error"] for each in opened.glance()}
        assert errors.pop("good.twopc.yaml") is None
        messages = {path: each["message"] for path, each in errors.items() if each}
        assert messages == {
            "closed": "closed: cannot list this folder: Permission denied",
            "secret.twopc.yaml": "secret.twopc.yaml: cannot read it: Permission denied",
        }
        with pytest.raises(MissingError, match="Permission denied; nothing was written"):
            opened.save("new.twopc.yaml", LOST, "")


def test_names_that_no_file_has_are_refused(server: ExploreProcess, folder: Path) -> None:
    """An invalid name is refused with the operating system's reason."""
    for path, words in (
        (f"{'x' * 300}.twopc.yaml", "File name too long"),
        ("good.twopc.yaml/x.twopc.yaml", "Not a directory"),
        ("nowhere/x.twopc.yaml", "No such file or directory"),
    ):
        body = {"path": path, "text": "twopc: 1", "base_version": ""}
        for answer in (
            server.ask("GET", f"/api/file?path={path}"),
            server.ask("PUT", "/api/file", body),
        ):
            assert answer[0] == 404
            assert words in answer[1]["error"]
    assert os.listdir(folder) == ["good.twopc.yaml"]


def test_a_text_is_saved_only_if_it_can_be_read_again(server: ExploreProcess, folder: Path) -> None:
    """A text too long to be read again is not saved; saving returns the version of the saved text."""
    body = {"path": "new.twopc.yaml", "text": "#" * (BYTES_MAX + 1), "base_version": ""}
    status, value, _ = server.ask("PUT", "/api/file", body)
    assert (status, value["kind"]) == (413, "request")
    assert f"over {BYTES_MAX} bytes" in value["error"]
    assert os.listdir(folder) == ["good.twopc.yaml"]
    status, saved, _ = server.ask("PUT", "/api/file", {**body, "text": "\ufefftwopc: 1"})
    assert status == 200
    assert server.get("/api/file?path=new.twopc.yaml")["version"] == saved["version"]
    (folder / "new.twopc.yaml").unlink()


def test_who_has_got_no_answer_saves_again(server: ExploreProcess, folder: Path) -> None:
    """Saving the same text again succeeds, because the file's change is the client's own."""
    version = server.get("/api/file?path=good.twopc.yaml")["version"]
    body = {"path": "good.twopc.yaml", "text": f"{LOST}# mine\n", "base_version": version}
    first, again = (server.ask("PUT", "/api/file", body) for _ in range(2))
    assert first[:2] == again[:2]
    assert again[0] == 200
    assert server.ask("PUT", "/api/file", {**body, "text": LOST})[0] == 409


def test_who_may_not_read_a_file_may_not_read_its_next_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The temporary file of a save has the permissions of the file that it replaces from the start."""
    (tmp_path / "good.twopc.yaml").write_text(LOST, encoding="utf-8")
    (tmp_path / "good.twopc.yaml").chmod(0o600)
    folder, modes = OpenFolder(tmp_path), []
    put = os.fchmod

    def fchmod(descriptor: int, mode: int) -> None:
        modes.append(os.fstat(descriptor).st_mode & 0o777)
        put(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", fchmod)
    folder.save("good.twopc.yaml", "twopc: 1\n", version_of(LOST))
    assert modes == [0o600]


def test_of_those_who_save_at_once_one_does(server: ExploreProcess, folder: Path) -> None:
    """Of several concurrent saves of one version, one succeeds and the others get a conflict."""
    place = folder / "good.twopc.yaml"
    version = server.get("/api/file?path=good.twopc.yaml")["version"]
    bodies = [
        {"path": place.name, "text": f"{LOST}# {number}\n", "base_version": version}
        for number in range(16)
    ]
    with ThreadPoolExecutor(len(bodies)) as tabs:
        answers = list(tabs.map(lambda body: server.ask("PUT", "/api/file", body)[0], bodies))
    assert sorted(answers) == [200] + [409] * (len(bodies) - 1)
    assert place.read_text(encoding="utf-8") == bodies[answers.index(200)]["text"]


def test_a_folder_that_becomes_a_link_meanwhile_leads_nowhere(tmp_path: Path) -> None:
    """Nothing is written outside the folder even if a path becomes a link during a save."""
    inner, outside = tmp_path / "opened" / "inner", tmp_path / "outside"
    for each in (inner, outside):
        each.mkdir(parents=True)
    opened, aside = OpenFolder(inner.parent), tmp_path / "aside"
    is_over = False

    def swap() -> None:
        while not is_over:
            inner.rename(aside)
            inner.symlink_to(outside)
            inner.unlink()
            aside.rename(inner)

    with ThreadPoolExecutor(1) as other:
        swapping = other.submit(swap)
        for number in range(2_000):
            with suppress(OutsideError, MissingError, ChangedError):
                opened.save(f"inner/{number}.twopc.yaml", "twopc: 1", "")
        is_over = True
        swapping.result()
    assert os.listdir(outside) == []
    assert not [each for each in os.listdir(inner) if each.endswith(".new")]


def test_what_a_scenario_is_made_of_is_read_from_files_only(
    server: ExploreProcess, folder: Path
) -> None:
    """Pipes, devices and standard input are refused as parts of a scenario, and missing files reported."""
    os.mkfifo(folder / "pipe.yaml")
    (folder / "shared.yaml").write_text("twopc: 1\ntables: {}\n", encoding="utf-8")
    for name, words in (
        ("pipe.yaml", "it is no regular file"),
        ("/dev/zero", "it is no regular file"),
        ('"-"', "No such file"),
        ('"\\ud800"', "half of a character"),
        ('"\\0"', "no file has such a name"),
    ):
        for key in ("extends", "include"):
            text = f"twopc: 1\nname: made\n{key}: {name}\n"
            errors = server.post("/api/check", path="made.twopc.yaml", text=text)["errors"]
            assert any(words in each["message"] for each in errors), (key, name, errors)
    text = "twopc: 1\nname: made\ninclude: shared.yaml\n"
    for is_there in (True, False):
        errors = server.post("/api/check", path="made.twopc.yaml", text=text)["errors"]
        assert any("No such file" in each["message"] for each in errors) != is_there
        (folder / "shared.yaml").unlink(missing_ok=True)
    (folder / "pipe.yaml").unlink()


def test_no_more_texts_are_kept_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cached texts are bounded in size: long texts are not kept, and recent short ones are."""
    monkeypatch.setattr(model_worker, "_KEPT_CHARACTERS_MAX", 4 * len(LOST))
    bench = ModelBench()
    texts = [f"{LOST}# {number}" for number in range(5)]
    kept = [bench.examined("good.twopc.yaml", text)[0] for text in texts]
    again = [bench.examined("good.twopc.yaml", text)[0] for text in reversed(texts)]
    assert [one is other for one, other in zip(reversed(kept), again, strict=True)] == [
        True, True, True, False, False,
    ]  # fmt: skip
    long = LOST + "#" * 4 * len(LOST)
    assert bench.examined("long.twopc.yaml", long) == bench.examined("long.twopc.yaml", long)


def test_what_a_scenario_is_made_of_is_read_anew_whatever_its_clock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A base file is read again even if its modification time has not changed."""
    monkeypatch.chdir(tmp_path)
    base = tmp_path / "base.twopc.yaml"
    base.write_text(LOST, encoding="utf-8")
    then = base.stat().st_mtime_ns
    text = "name: own\nabout: Made of another.\nextends: base.twopc.yaml\n"
    bench = ModelBench()
    assert "bal - 20" in str(bench.loaded("own.twopc.yaml", text).scenario.steps["b_write"])
    base.write_text(LOST.replace("bal - 20", "bal - 30"), encoding="utf-8")
    os.utime(base, ns=(then, then))
    assert "bal - 30" in str(bench.loaded("own.twopc.yaml", text).scenario.steps["b_write"])
