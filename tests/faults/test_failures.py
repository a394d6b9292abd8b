"""Every exception of a coordinator's process is passed to the process that waits for it."""

from __future__ import annotations

import pickle
from typing import Any

import psycopg
import pytest

from tests.fix_topology import MakeTopology
from twopc import errors
from twopc.subscriber.distribution_agent import AheadError

OURS = [
    each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, errors.TwopcError)
]
OF_TRANSACTIONS = {
    "gid": "twopc:c:1:1",
    "node": "pub",
    "sqlstate": "40001",
    "detail": "d",
    "hint": "h",
}


@pytest.mark.parametrize("kind", [*OURS, AheadError])
def test_an_exception_of_ours(kind: type[errors.TwopcError]) -> None:
    """Our exceptions are unchanged after pickling."""
    fields: dict[str, Any] = {}
    if issubclass(kind, errors.TransactionError):
        fields = dict(OF_TRANSACTIONS)
    if issubclass(kind, errors.ConflictError):
        fields["facts"] = {"kind": "row_missing"}
    if issubclass(kind, errors.DeliveryError):
        fields = {
            "node": "sub1",
            "sqlstate": "23505",
            "number": 2627,
            "seqno": "0/1",
            "command": "c",
        }
    error = kind("not so", **fields)
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is kind
    assert str(arrived) == "not so"
    assert vars(arrived) == vars(error)
    assert fields.items() <= vars(arrived).items()


@pytest.mark.parametrize("sqlstate", ["23505", "A0001", "P0XYZ"])
async def test_a_servers_error(make_topology: MakeTopology, sqlstate: str) -> None:
    """Errors of servers survive pickling, also with SQLSTATEs for which psycopg has no class."""
    topology = await make_topology()
    text = f"do $$begin raise exception 'not so' using errcode = '{sqlstate}', detail = 'd', hint = 'h'; end$$"
    with pytest.raises(psycopg.DatabaseError) as raised:
        await topology.execute("pub", text)
    arrived = pickle.loads(pickle.dumps(raised.value))
    assert type(arrived) is type(raised.value)
    report = arrived.diag
    assert (arrived.sqlstate, report.message_primary) == (sqlstate, "not so")
    assert (report.message_detail, report.message_hint) == ("d", "h")
