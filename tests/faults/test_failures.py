"""What a coordinator's process reports is told where somebody waits for it, whatever it is."""

from __future__ import annotations

import psycopg
import pytest

from twopc.errors import ConflictError
from twopc.sim.faults.serving import Failure, packed, unpacked


@pytest.mark.parametrize("sqlstate", ["23505", "A0001", "P0XYZ"])
def test_a_servers_error(sqlstate: str) -> None:
    """Users may raise SQLSTATEs that the client library has no class for."""
    error = unpacked(Failure("psycopg", "not so", {"sqlstate": sqlstate}))
    assert isinstance(error, psycopg.DatabaseError)
    assert (error.sqlstate, str(error)) == (sqlstate, "not so")


def test_a_refusal() -> None:
    """It is the same on this side."""
    error = unpacked(
        packed(ConflictError("stale", facts={"kind": "row_missing"}, gid="twopc:c:1:1"))
    )
    assert isinstance(error, ConflictError)
    assert (error.kind, error.gid) == ("row_missing", "twopc:c:1:1")
