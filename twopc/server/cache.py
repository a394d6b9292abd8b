"""The current user's cache directory, and file locks that end with their process.

This module must not depend on what is cached.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from twopc.errors import ServerError
from twopc.server.polling import wait_for

#: Environment variable that overrides the location of the cache.
CACHE_VARIABLE = "TWOPC_CACHE_DIR"


def cache_directory(*parts: str) -> Path:
    """Return a directory in the cache, which is created if it does not exist.

    Root's directory is readable by others, because the server runs as another user. Raises `ServerError` if the
    directory cannot be created or belongs to another user.
    """
    as_root = os.geteuid() == 0
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        root = Path(given).absolute()
    elif as_root:
        root = Path("/var/cache/twopc")
    else:
        home = os.environ.get("XDG_CACHE_HOME", "")
        # According to the XDG specification, a relative path must be ignored.
        root = (Path(home) if os.path.isabs(home) else Path.home() / ".cache") / "twopc"
    mode = 0o755 if as_root else 0o700
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        for directory in (root, *(root.joinpath(*parts[: n + 1]) for n in range(len(parts)))):
            directory.mkdir(exist_ok=True)
            if directory.stat().st_uid != os.geteuid():
                raise ServerError(
                    f"cache directory {directory} belongs to another user:"
                    f" set {CACHE_VARIABLE} to a directory of your own"
                )
            directory.chmod(mode)  # independent of the umask
    except OSError as error:
        raise ServerError(
            f"cache directory {root} cannot be used ({error.strerror}):"
            f" set {CACHE_VARIABLE} to a directory that you may write"
        ) from error
    return root.joinpath(*parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLock:
    """A held `flock`; the system releases it when the last process that has `fd` open has ended."""

    path: Path
    fd: int
    """File descriptor; a child process that inherits it keeps the lock until the child ends."""

    @classmethod
    def try_take(cls, path: Path, *, shared: bool = False, create: bool = True) -> FileLock | None:
        """Return the lock, or None if another process holds it (or if `create` is false and the file does not
        exist).
        """
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        while True:
            try:
                fd = os.open(path, flags, 0o600)
            except FileNotFoundError:
                if create:
                    raise
                return None
            try:
                fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                # The previous holder may have removed the file after it was opened here.
                lock = cls(path=path, fd=fd)
                if lock.is_current():
                    return lock
            except BlockingIOError:
                os.close(fd)
                return None
            os.close(fd)

    @classmethod
    def take(cls, path: Path, *, shared: bool = False, timeout_s: float) -> FileLock:
        """Wait for the lock and return it; raise `ServerError` after `timeout_s`."""
        try:
            lock = wait_for(
                lambda: cls.try_take(path, shared=shared), what=f"{path}", timeout_s=timeout_s
            )
        except TimeoutError as error:
            raise ServerError(
                f"another process has held {path} for {timeout_s:g} s: end it, then try again"
            ) from error
        assert lock is not None
        return lock

    def is_current(self) -> bool:
        """Return whether the locked file is still the one at `path`: another process could lock any other."""
        try:
            return os.path.samestat(os.fstat(self.fd), os.stat(self.path))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def release(self, *, remove: bool = False) -> None:
        """Release the lock, and with `remove` delete its file."""
        if remove:
            self.path.unlink(missing_ok=True)
        os.close(self.fd)
