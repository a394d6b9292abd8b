"""What the model's servers report, as the drivers know it from real ones: psycopg's exceptions."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import psycopg

from twopc.sim.model.values import RequestLostError, SqlError


def as_psycopg(error: SqlError | RequestLostError) -> psycopg.Error:
    """The exception that psycopg raises for it."""
    if isinstance(error, RequestLostError):
        return psycopg.OperationalError(str(error))
    return psycopg.errors.lookup(error.sqlstate)(error.message)


@contextmanager
def raised() -> Generator[None]:
    """Within the block, errors of the model are raised as psycopg's."""
    try:
        yield
    except (SqlError, RequestLostError) as error:
        raise as_psycopg(error) from error
