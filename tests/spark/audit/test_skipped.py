"""Tests of reading the transactions that agents have skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.fix_server import MakeDatabase
from tests.spark.source.filled import filled
from twopc.sim.spark.audit.gather import skipped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

_EVENTS = """
insert into msrepl.msdistribution_history (publisher_database_id, subscriber, event, xact_seqno, error, message)
values (1, 'north', 'started', null, null, null), (1, 'north', 'skipped', '0/20', '23505', 'there already')
"""


def test_nothing_or_what_was_left_out(spark: SparkSession, make_database: MakeDatabase) -> None:
    """Only skipped transactions are returned, no other events of the agents."""
    with filled(make_database()) as dsn:
        assert skipped(spark, dsn, 1).collect() == []
        with psycopg.connect(dsn) as connection:
            connection.execute(_EVENTS)
        (row,) = skipped(spark, dsn, 1).collect()
    assert (row["subscriber"], row["seqno"], row["error"], row["message"]) == (
        "north", 32, "23505", "there already",
    )  # fmt: skip
