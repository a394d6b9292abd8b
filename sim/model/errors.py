"""Errors of the model's servers as the exceptions of psycopg, which drivers get from real servers."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import psycopg

from twopc.sim.model.values import RequestLostError, SqlError


@contextmanager
def raised() -> Generator[None]:
    """Within the block, raise errors of the model as psycopg's exceptions."""
    try:
        yield
    except SqlError as error:
        raise psycopg.errors.lookup(error.sqlstate)(error.message) from error
    except RequestLostError as error:
        raise psycopg.OperationalError(str(error)) from error
