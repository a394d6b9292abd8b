"""Tests of each check on a small world: without a fault it finds nothing, with a fault it finds that."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame
from pyspark.testing import assertDataFrameEqual

from tests.spark.audit.world import NAMES, World, command, told
from twopc.sim.spark import shapes
from twopc.sim.spark.audit import atomic, delivery, rows, versions
from twopc.sim.spark.audit.frames import Frames, Names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

CHECKS: dict[str, Callable[[Frames, Names], DataFrame]] = {
    "rows": rows.check,
    "atomic": atomic.check,
    "versions": versions.check,
    "echo": delivery.echo,
    "delivered": delivery.delivered,
    "order": delivery.order,
}


def test_nothing_is_wrong(spark: SparkSession) -> None:
    """All checks find nothing in the same world without faults."""
    frames = World().frames(spark)
    every = [check(frames, NAMES) for check in CHECKS.values()]
    found = every[0]
    for each in every[1:]:
        found = found.unionByName(each)
    assertDataFrameEqual(found, shapes.frame(spark, [], shapes.FINDINGS))


def test_rows(spark: SparkSession) -> None:
    """A different value, a missing row, an additional row, and a row that the fold does not explain are found."""
    world = World()
    world.rows["south"]["1"] = ("91", "a2")
    world.rows["north"] = {}  # both rows
    world.rows["south"]["3"] = ("1", "c1")
    world.state["4"] = ("1", "d1")
    assert told(rows.check(world.frames(spark), NAMES)) == [
        ("1", "north", "not there; the Publisher has it (last command 0/C of north)"),
        ("1", "south", "balance '91', not '90' (last command 0/C of north)"),
        ("2", "north", "not there; the Publisher has it (last command 0/D of south)"),
        ("3", "south", "there; the Publisher has no such row"),
        ("4", "pub", "not there; the commands come to a row"),
    ]


def test_rows_that_went_on(spark: SparkSession) -> None:
    """A row that was changed after the archive's end is not compared with the fold."""
    world = World(later=["1"])
    for there in world.rows.values():
        there["1"], there["2"] = ("70", "a3"), ("71", "b3")
    assert [key for key, _, _ in told(rows.check(world.frames(spark), NAMES))] == ["2"]


def test_atomic(spark: SparkSession) -> None:
    """A Subscriber's own change that it lacks is found, and a change that no other node has."""
    world = World()
    world.rows["north"]["1"] = ("100", "a1")
    world.rows["south"]["1"] = ("55", "z9")
    found = atomic.check(world.frames(spark), NAMES).orderBy("node").collect()
    assert [(row["node"], row["key"], row["gid"], row["detail"]) for row in found] == [
        (
            "north", ["1"], "twopc:bank:1:12",
            "a transaction of north took effect at pub, not at north (last command 0/C of north)",
        ),
        ("south", ["1"], None, "took effect at south, not at pub: version z9 is nowhere else"),
    ]  # fmt: skip


def test_atomic_of_a_delete(spark: SparkSession) -> None:
    """A row that a Subscriber has deleted, but still has, is found."""
    world = World()
    world.decoded.append(command(14, "del", "1", None, None, originator=1))
    del world.rows["pub"]["1"], world.rows["south"]["1"], world.state["1"]
    ((key, node, detail),) = told(atomic.check(world.frames(spark), NAMES))
    assert (key, node) == ("1", "north")
    assert "took effect at pub, not at north" in detail


def test_atomic_is_not_lateness(spark: SparkSession) -> None:
    """A row that an agent has not delivered yet is not a violation of atomicity: its version is known."""
    world = World(known=["a0"])
    world.rows["north"]["2"] = ("100", "a0")
    world.rows["south"]["1"] = ("100", "a1")
    assert told(atomic.check(world.frames(spark), NAMES)) == []


@pytest.mark.parametrize("bucket", [2, 1 << 26])
def test_versions(spark: SparkSession, bucket: int) -> None:
    """A version that was given twice is found, and a change that does not follow the version before it.

    The result does not depend on how the sequence is divided.
    """
    world = World()
    world.decoded += [command(14, "upd", "1", "a1", "a3"), command(15, "upd", "2", "b2", "b1")]
    assert told(versions.check(world.frames(spark), NAMES, bucket=bucket)) == [
        ("1", "pub", "it replaces version a1, but the change before it, 0/C, had made a2"),
        ("2", "pub", "version b1 was given 2 times, first by 0/B, last by 0/F"),
    ]


def test_versions_of_rows_whose_key_changes(spark: SparkSession) -> None:
    """After a change of the key, the row's versions continue under the new key, and others begin under the old one."""
    world = World()
    world.decoded += [
        command(14, "upd", "1", "a2", "a3", new_key="7"),
        command(15, "ins", "1", None, "e1"),
        command(16, "upd", "7", "a3", "a4"),
        command(17, "upd", "1", "e1", "e2"),
        command(18, "del", "7", None, None),
        command(19, "ins", "7", None, "f1"),
    ]
    assert told(versions.check(world.frames(spark), NAMES, bucket=2)) == []


def test_echo(spark: SparkSession) -> None:
    """North's own update that was delivered to it is found, and a delete that only north has made."""
    world = World()
    world.decoded.append(command(14, "del", "2", None, None, originator=1))
    world.witnessed += [("north", "upd", "1", "a2"), ("north", "del", "2", "b2")]
    frames = world.frames(spark)
    assert told(delivery.echo(frames, NAMES)) == [
        ("1", "north", "what north did came back to it: update, command 0/C"),
        ("2", "north", "what north did came back to it: delete, command 0/E"),
    ]


def test_delivered(spark: SparkSession) -> None:
    """Missing, repeated and unexpected deliveries are found; a Subscriber without a witness is ignored."""
    world = World(watched=("north",))
    world.witnessed = [
        ("north", "ins", "1", "a1"),
        ("north", "ins", "2", "b1"),
        ("north", "ins", "2", "b1"),
        ("north", "upd", "9", "q1"),
    ]
    assert told(delivery.delivered(world.frames(spark), NAMES)) == [
        ("2", "north", "insert came 2 times, and was sent 1 times, command 0/B"),
        ("2", "north", "missing: update, command 0/D"),
        ("9", "north", "strange: update"),
    ]


def test_delivered_of_deletes(spark: SparkSession) -> None:
    """The delivery of a delete is recognised, although its command does not contain the row's version."""
    world = World()
    world.decoded.append(command(14, "del", "2", None, None))
    world.witnessed.append(("north", "del", "2", "b2"))
    assert told(delivery.delivered(world.frames(spark), NAMES)) == [
        ("2", "south", "missing: delete, command 0/E")
    ]


def test_order(spark: SparkSession) -> None:
    """Two commands of one row that are swapped are found; those of different rows may be."""
    world = World()
    world.decoded.append(command(14, "upd", "2", "b2", "b3"))
    world.witnessed = [
        ("north", "ins", "2", "b1"),
        ("north", "upd", "2", "b3"),
        ("north", "upd", "2", "b2"),
        ("north", "ins", "1", "a1"),
    ]
    assert told(delivery.order(world.frames(spark), NAMES)) == [
        ("2", "north", "command 0/D came after 0/E")
    ]
