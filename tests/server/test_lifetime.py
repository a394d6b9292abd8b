"""Tests that a server ends with its owner, however the owner ends, and leaves nothing behind."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.server.conftest import OWNER, ROOT, MakeChild, is_alive, wait_until_gone
from twopc.errors import ServerError
from twopc.server import EmbeddedServer, run_directory, supervisor, sweep
from twopc.server.cache import CACHE_VARIABLE
from twopc.server.polling import wait_for

#: The System V segments of this machine, if they can be listed.
SHARED_MEMORY = Path("/proc/sysvipc/shm")


def shared_memory_key(directory: Path) -> str:
    """Return the key of the shared memory segment of the server in a run directory."""
    return (
        (directory / "data" / "postmaster.pid")
        .read_text(encoding="utf-8")
        .splitlines()[6]
        .split()[0]
    )


def shared_memory_keys() -> set[str]:
    """Return the keys of all segments; none if they cannot be listed."""
    lines = SHARED_MEMORY.read_text(encoding="utf-8").splitlines() if SHARED_MEMORY.exists() else []
    return {line.split()[0] for line in lines}


def test_killed_owner_leaves_nothing(make_child: MakeChild) -> None:
    owner = make_child()
    said = owner.said()
    psycopg.connect(said["dsn"]).close()
    owner.kill()
    wait_until_gone(said)


def test_killed_process_group_leaves_nothing(make_child: MakeChild) -> None:
    owner = make_child(start_new_session=True)
    said = owner.said()
    os.killpg(owner.process.pid, signal.SIGKILL)
    wait_until_gone(said)


def test_exit_without_stop_leaves_nothing(make_child: MakeChild) -> None:
    owner = make_child()
    said = owner.said()
    owner.end()
    wait_until_gone(said)


def test_signals_meant_for_the_owner_do_not_stop_the_supervisor(make_child: MakeChild) -> None:
    owner = make_child()
    said = owner.said()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(said["supervisor"], number)
    owner.kill()
    wait_until_gone(said)


@pytest.mark.parametrize("postmaster_too", [False, True])
def test_sweep_clears_what_a_dead_supervisor_could_not(
    make_child: MakeChild, own_cache: Path, postmaster_too: bool
) -> None:
    owner = make_child()
    said = owner.said()
    with psycopg.connect(said["dsn"]):  # its backend outlives the postmaster by a moment
        os.kill(said["supervisor"], signal.SIGKILL)
        if postmaster_too:
            os.kill(said["pid"], signal.SIGKILL)
        owner.kill()
        wait_for(
            lambda: not is_alive(said["supervisor"]), what="the supervisor to die", timeout_s=60
        )
        assert Path(said["directory"]).exists()
        (leftover,) = sweep()
    assert str(leftover.directory) == said["directory"]
    assert postmaster_too or said["pid"] in leftover.pids
    wait_until_gone(said)
    assert sweep() == []


def test_next_start_sweeps(make_child: MakeChild, own_cache: Path) -> None:
    owner = make_child()
    said = owner.said()
    os.kill(said["supervisor"], signal.SIGKILL)
    owner.kill()
    wait_for(lambda: not is_alive(said["supervisor"]), what="the supervisor to die", timeout_s=60)
    with EmbeddedServer.start():
        wait_until_gone(said)


def test_sweep_leaves_running_servers_alone(own_cache: Path) -> None:
    with EmbeddedServer.start() as server:
        assert sweep() == []
        os.kill(server.supervisor_pid, signal.SIGKILL)
        wait_for(
            lambda: not is_alive(server.supervisor_pid), what="the supervisor to die", timeout_s=60
        )
        assert sweep() == []  # this process still holds the lock
        psycopg.connect(server.dsn("postgres")).close()
    assert not server.directory.exists()


def test_sweep_kills_nobody_elses_process(make_child: MakeChild, own_cache: Path) -> None:
    owner = make_child()
    said = owner.said()
    for pid in (said["supervisor"], said["pid"]):
        os.kill(pid, signal.SIGKILL)
    owner.kill()
    wait_for(lambda: not is_alive(said["supervisor"]), what="the supervisor to die", timeout_s=60)
    data = Path(said["directory"]) / "data"
    # It works in the data directory and its pid is in the postmaster's file: not enough for a kill.
    bystander = subprocess.Popen(["sleep", "60"], cwd=data)
    try:
        text = (data / "postmaster.pid").read_text(encoding="utf-8").split("\n", 1)[1]
        (data / "postmaster.pid").write_text(f"{bystander.pid}\n{text}", encoding="utf-8")
        sweep()
        wait_until_gone(said)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_supervisor_needs_none_of_our_modules(tmp_path: Path) -> None:
    """The supervisor imports no module of ours, which may be edited or uninstalled meanwhile."""
    script = Path(supervisor.__file__)
    assert "twopc." not in re.sub(r"`[^`]*`", "", script.read_text(encoding="utf-8"))
    (tmp_path / "run" / "data").mkdir(parents=True)
    (tmp_path / "lock").touch()
    command: list[str | Path] = [sys.executable, "-P", script]
    command += [tmp_path / "run", tmp_path / "lock", tmp_path / "no"]
    site = os.pathsep.join(path for path in sys.path if path and Path(path) != ROOT)
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True, cwd="/", env={"PYTHONPATH": site})
    assert list(tmp_path.iterdir()) == []


def test_sweep_of_an_owner_that_died_before_it_made_anything(own_cache: Path) -> None:
    sweep()
    (own_cache / "runs" / "0123456789.lock").touch()
    assert sweep() == []
    assert list((own_cache / "runs").iterdir()) == []


def test_forked_child_neither_keeps_nor_ends_the_server(make_child: MakeChild) -> None:
    forking = OWNER.replace(
        "sys.stdin.read()",
        "import os, signal\n"
        "if os.fork() == 0:\n"
        "    server.stop()\n"
        "    server.__exit__(None, None, None)\n"
        "    print('{}', flush=True)\n"
        "    signal.pause()\n"
        "sys.stdin.read()\n",
    )
    owner = make_child(forking, start_new_session=True)
    try:
        said = owner.said()
        assert owner.said() == {}  # the child has called stop
        psycopg.connect(said["dsn"]).close()
        owner.kill()
        wait_until_gone(said)  # although the child is alive
    finally:
        os.killpg(owner.process.pid, signal.SIGKILL)


@pytest.mark.parametrize("durable", [False, True])
def test_removed_cache_does_not_save_a_server(
    make_child: MakeChild, empty_cache: Path, durable: bool
) -> None:
    owner = make_child(OWNER.replace("start()", f"start(durable={durable})"))
    said = owner.said()
    key = shared_memory_key(Path(said["directory"]))
    shutil.rmtree(empty_cache)
    owner.kill()
    wait_until_gone(said)
    assert key not in shared_memory_keys()


@pytest.mark.parametrize("durable", [False, True])
def test_place(own_cache: Path, monkeypatch: pytest.MonkeyPatch, durable: bool) -> None:
    for room, on_disk in ((0, durable), (2**60, True)):
        monkeypatch.setattr(run_directory, "_MEMORY_BYTES_MIN", room)
        with EmbeddedServer.start(durable=durable) as server:
            on_disk = on_disk or not Path("/dev/shm").exists()
            assert server.directory.is_relative_to(own_cache) == on_disk


@pytest.mark.parametrize("end", ["stop", "crash", "kill"])
def test_shared_memory_is_removed(end: str) -> None:
    with EmbeddedServer.start() as server:
        key = shared_memory_key(server.directory)
        if SHARED_MEMORY.exists():
            assert key in shared_memory_keys()
        getattr(server, end)()
    assert key not in shared_memory_keys()


def test_concurrent_first_runs(make_child: MakeChild, empty_cache: Path) -> None:
    owners = [make_child() for _ in range(3)]
    places = {owner.said()["directory"] for owner in owners}
    assert len(places) == 3
    clusters = [p for p in (empty_cache / "clusters").iterdir() if p.suffix != ".lock"]
    assert len(clusters) == 1
    for owner in owners:
        owner.end()
    wait_for(
        lambda: not list((empty_cache / "runs").iterdir()), what="the runs to end", timeout_s=60
    )


def test_killed_first_run_is_made_good(make_child: MakeChild, empty_cache: Path) -> None:
    first = make_child()
    clusters = empty_cache / "clusters"
    wait_for(
        lambda: list(clusters.glob("*.partial/data/global")), what="initdb to begin", timeout_s=30
    )
    first.kill()
    assert [p for p in clusters.iterdir() if p.suffix == ".partial"]
    with EmbeddedServer.start() as server:
        psycopg.connect(server.dsn("postgres")).close()
    assert not [p for p in clusters.iterdir() if p.suffix == ".partial"]
    # The killed process also had a run directory, which its supervisor removes.
    wait_for(lambda: not list((empty_cache / "runs").iterdir()), what="no runs", timeout_s=60)


@pytest.fixture
def ordinary_user() -> Iterator[dict[str, Any]]:
    """Return how to start a process as the user nobody, with a home directory of its own."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user; every other test runs as an ordinary one")
    nobody = pwd.getpwnam("nobody")
    home = Path(tempfile.mkdtemp(prefix="twopc-test-"))
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    paths = [str(ROOT), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    user: dict[str, Any] = {
        "user": nobody.pw_uid,
        "group": nobody.pw_gid,
        "extra_groups": [],
        "cwd": home,
        "env": {"HOME": str(home), "PATH": os.defpath, "PYTHONPATH": os.pathsep.join(paths)},
    }
    said = []
    # Our Python may be in a directory that only root can enter; then try the system's.
    for python in (sys.executable, shutil.which("python3", path=os.defpath)):
        try:
            imports = [str(python), "-c", "import twopc.server"]
            subprocess.run(imports, check=True, capture_output=True, text=True, **user)
        except OSError as error:
            said.append(str(error))
        except subprocess.CalledProcessError as error:
            said.append(str(error.stderr))
        else:
            yield {"python": python, **user}
            break
    else:
        pytest.skip(f"user nobody has no Python that can import this project: {said}")
    wait_for(lambda: not any(home.glob(".cache/twopc/runs/*")), what="the run", timeout_s=60)
    shutil.rmtree(home)


def test_ordinary_user(make_child: MakeChild, ordinary_user: dict[str, Any]) -> None:
    owner = make_child(**ordinary_user)
    said = owner.said()
    assert said["uid"] == ordinary_user["user"]
    home = Path(ordinary_user["env"]["HOME"])
    assert Path(said["lockfile"]).is_relative_to(home / ".cache" / "twopc")
    assert not (home / ".cache" / "twopc" / "programs").exists()  # the wheel's own programs are run
    psycopg.connect(said["dsn"]).close()
    owner.kill()
    wait_until_gone(said)


def test_no_user_to_run_as(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("an ordinary user runs the server as itself")
    monkeypatch.setenv("TWOPC_SERVER_USER", "no such user")
    with pytest.raises(ServerError, match="TWOPC_SERVER_USER"):
        EmbeddedServer.start()
    monkeypatch.setenv("TWOPC_SERVER_USER", "root")
    with pytest.raises(ServerError, match="unprivileged"):
        EmbeddedServer.start()


def test_cache_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file" / "cache"))
    with pytest.raises(ServerError, match=CACHE_VARIABLE):
        EmbeddedServer.start()
