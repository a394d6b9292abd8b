"""Scenario files as bytes: read, up to a bound, where they are files and not devices that never end."""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path

from twopc.errors import ScenarioError

#: Of a file.
BYTES_MAX = 1_000_000


def content(path: str | Path) -> str:
    """The text of a file, or of standard input if it is called ``-``.

    Raises:
        ScenarioError: it cannot be read, is too long or is not UTF-8.
    """
    return decoded(sys.stdin.buffer.read(), path) if str(path) == "-" else of_file(path)


def of_file(path: str | Path) -> str:
    """The text of a file, whatever it is called; raises as `content`."""
    try:
        raw = read_regular(path)
    except OSError as error:
        raise ScenarioError(f"{path}: cannot read it: {error.strerror}") from error
    except ValueError as error:
        raise ScenarioError(f"{str(path)!a}: no file has such a name") from error
    return decoded(raw, path)


def read_regular(path: str | Path, *, within: int | None = None) -> bytes:
    """What is in a file, or more than its first `BYTES_MAX` bytes of it; a device or a pipe may never end.

    Args:
        within: the descriptor of the folder that `path` is a name in; then it is no link either.

    Raises:
        OSError: it cannot be read, or is no regular file.
        ValueError: no file has such a name.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # which waits for no writer of a pipe
    flags |= 0 if within is None else os.O_NOFOLLOW
    descriptor = os.open(path, flags, dir_fd=within)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        with open(descriptor, "rb", closefd=False) as file:
            raw: bytes | None = file.read(BYTES_MAX + 1)
        if raw is None:
            raise OSError(errno.EAGAIN, "it has nothing to be read now")
        return raw
    finally:
        os.close(descriptor)


def decoded(raw: bytes, path: str | Path) -> str:
    """The text that the bytes of the file `path` are.

    Raises:
        ScenarioError: it is too long, or is not UTF-8.
    """
    if len(raw) > BYTES_MAX:
        raise ScenarioError(f"{path}: over {BYTES_MAX} bytes is too long for a scenario")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ScenarioError(f"{path}:{line}: error: it is not UTF-8") from error
