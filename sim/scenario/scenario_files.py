"""Reading of scenario files: only regular files, and up to a maximum size."""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path

from twopc.errors import ScenarioError

#: Maximum size of a file.
BYTES_MAX = 1_000_000


def content(path: str | Path) -> str:
    """Return the text of a file, or of standard input if the path is ``-``.

    Raises:
        ScenarioError: the file cannot be read, is too long, or is not UTF-8.
    """
    return decoded(sys.stdin.buffer.read(), path) if str(path) == "-" else of_file(path)


def of_file(path: str | Path) -> str:
    """Return the text of a file, even one named ``-``. See `content` for errors."""
    try:
        raw = read_regular(path)
    except OSError as error:
        raise ScenarioError(f"{path}: cannot read it: {error.strerror}") from error
    except ValueError as error:
        raise ScenarioError(f"{str(path)!a}: no file has such a name") from error
    return decoded(raw, path)


def read_regular(path: str | Path, *, within: int | None = None) -> bytes:
    """Return the content of a regular file, up to one byte more than `BYTES_MAX`; a device or a pipe might never
    end.

    Args:
        within: descriptor of the folder that contains `path`; symbolic links are then refused.

    Raises:
        OSError: the file cannot be read, or is not a regular file.
        ValueError: the name is not valid for a file.
    """
    # O_NONBLOCK: does not wait for the writer of a pipe
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
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
    """Return the bytes of the file `path` as text.

    Raises:
        ScenarioError: the file is too long, or is not UTF-8.
    """
    if len(raw) > BYTES_MAX:
        raise ScenarioError(f"{path}: over {BYTES_MAX} bytes is too long for a scenario")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line = before.count(b"\n") + 1
        column = len(before.rpartition(b"\n")[2].decode(errors="replace")) + 1
        raise ScenarioError(
            f"{path}:{line}:{column}: error: byte {raw[error.start]:#04x} is not UTF-8: save the file in UTF-8"
        ) from error
