"""Errors of the model's servers as the exceptions of psycopg, which drivers get from real servers."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import psycopg

from twopc.sim.model.values import RequestLostError, SqlError


def as_psycopg(error: SqlError | RequestLostError) -> psycopg.Error:
    """Return the exception that psycopg raises for an error."""
    if isinstance(error, RequestLostError):
        return psycopg.OperationalError(str(error))
    return psycopg.errors.lookup(error.sqlstate)(error.message)


@contextmanager
def raised() -> Generator[None]:
    """Within the block, raise errors of the model as psycopg's exceptions."""
    try:
        yield
    except (SqlError, RequestLostError) as error:
        raise as_psycopg(error) from error
