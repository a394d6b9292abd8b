"""What failures of its servers mean to a log reader. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from twopc.errors import StoredMeanwhileError


@contextmanager
def alone() -> Iterator[None]:
    """StoredMeanwhileError if another log reader stores the same"""
    try:
        yield
    except (errors.ObjectInUse, errors.UniqueViolation) as error:
        raise StoredMeanwhileError(
            "another log reader, with another slot, has stored the same transactions (18752): stop one "
            f"of them ({error.diag.message_primary or error})"
        ) from error


def may_pass(error: BaseException) -> bool:
    """The server failed, or was away: trying again may help."""
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | OSError)
