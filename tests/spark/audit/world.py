"""A small world for audits: one table, a Publisher, two Subscribers, and four commands delivered to all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import md5
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from twopc.sim.spark import shapes
from twopc.sim.spark.audit.frames import KEYS, ROWS_AT, VERSIONS, WATCHED, Frames, Names, changes

NAMES = Names(publisher="pub", repro="twopc audit bank.archive")
ACCOUNT = (
    1, 1, 0, "public", "account", ["id", "balance", "v"], ["integer", "integer", "uuid"], [0], 2, None,
    "CALL", "SCALL", "CALL", [],
)  # fmt: skip

PAY = (2, "public", "pay", "public.pay(integer)", ["account"])


def command(
    seqno: int, operation: str, key: str, old: str | None, new: str | None, *, originator: int | None = None,
    new_key: str | None = None, beside: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """Return a row of `DECODED`."""
    after = None if operation == "del" else [new_key or key]
    return (
        seqno,
        1,
        1,
        1,
        operation,
        originator,
        [key],
        after,
        None,
        None,
        None,
        old,
        new,
        "",
        beside,
    )


@dataclass(slots=True)
class World:
    """The contents of all nodes; a test changes them, and creates the frames."""

    #: The Publisher inserts rows 1 and 2; then north changes row 1, and south row 2.
    decoded: list[tuple[Any, ...]] = field(
        default_factory=lambda: [
            command(10, "ins", "1", None, "a1"),
            command(11, "ins", "2", None, "b1"),
            command(12, "upd", "1", "a1", "a2", originator=1),
            command(13, "upd", "2", "b1", "b2", originator=2),
        ]
    )
    transactions: list[tuple[Any, ...]] = field(
        default_factory=lambda: [
            (seqno, seqno, None, None, 0, 1, 1, f"twopc:bank:1:{seqno}") for seqno in range(10, 20)
        ]
    )
    rows: dict[str, dict[str, tuple[str, str]]] = field(
        default_factory=lambda: {
            name: {"1": ("90", "a2"), "2": ("80", "b2")} for name in ("pub", "north", "south")
        }
    )
    state: dict[str, tuple[str, str]] = field(
        default_factory=lambda: {"1": ("90", "a2"), "2": ("80", "b2")}
    )
    later: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    #: Subscriber, operation, key and version of each change, in order.
    witnessed: list[tuple[str, str, str, str]] = field(
        default_factory=lambda: [
            ("north", "ins", "1", "a1"),
            ("north", "ins", "2", "b1"),
            ("north", "upd", "2", "b2"),
            ("south", "ins", "1", "a1"),
            ("south", "ins", "2", "b1"),
            ("south", "upd", "1", "a2"),
        ]
    )
    watched: Sequence[str] = ("north", "south")
    #: Sequence number and arguments of each call of routine 2, which changes the account.
    called: list[tuple[int, str]] = field(default_factory=list)
    #: Subscriber and arguments of each call that an agent made.
    calls_made: list[tuple[str, str]] = field(default_factory=list)
    takers: frozenset[str] = frozenset()
    untold: frozenset[int] = frozenset()

    def frames(self, spark: SparkSession) -> Frames:
        """Return the frames that the checks take."""
        known = [(1, "north", 1, 2, True, 0, 0, None), (1, "south", 2, 2, True, 0, 0, None)]
        known += [(2, name, None, 2, True, 0, None, None) for name in sorted(self.takers)]
        subscriptions = shapes.frame(spark, known, shapes.SUBSCRIPTIONS)
        told = changes(
            shapes.frame(spark, self.decoded, shapes.DECODED),
            shapes.frame(spark, self.transactions, shapes.TRANSACTIONS),
            subscriptions,
        )
        rows = [
            (node, 1, [key], [key, *values])
            for node, there in self.rows.items()
            for key, values in there.items()
        ]
        state = [(1, [key], [key, *values], 1, 1, 1, True) for key, values in self.state.items()]
        witnessed = [
            (node, at, at, "public", "account", operation, [key], version, None)
            for at, (node, operation, key, version) in enumerate(self.witnessed, 1)
        ]
        witnessed += [
            (
                node,
                at,
                at,
                "msrepl",
                "apply_2_call",
                "call",
                [md5(said.encode()).hexdigest()],
                None,
                None,
            )
            for at, (node, said) in enumerate(self.calls_made, len(witnessed) + 1)
        ]
        calls = [(seqno, 1, 2, said, False, False) for seqno, said in self.called]
        watched = [(name, number, 0, 100) for name in self.watched for number in (1, 2)]
        return Frames(
            changes=told.where("problem = ''").drop("problem"),
            called=shapes.frame(spark, calls, shapes.ROUTINE_CALLS),
            routines=shapes.frame(spark, [PAY], shapes.ROUTINES),
            takers=self.takers,
            own_versions=frozenset((name, 1) for name in self.takers),
            untold=self.untold,
            state=shapes.frame(spark, state, shapes.STATE),
            articles=shapes.frame(spark, [ACCOUNT], shapes.ARTICLES),
            subscriptions=subscriptions,
            later=shapes.frame(spark, [(1, [key]) for key in self.later], KEYS),
            known=shapes.frame(spark, [(1, each) for each in self.known], VERSIONS),
            rows_at=shapes.frame(spark, rows, ROWS_AT),
            witnessed=shapes.frame(spark, witnessed, shapes.WITNESSED),
            watched=shapes.frame(spark, watched, WATCHED),
            read=tuple(each for each in self.rows if each != "pub"),
            folded=(1,),
        )


def told(found: DataFrame) -> list[tuple[str, str, str]]:
    """Check the columns of the findings, and return key, node and detail of each."""
    assert found.columns == shapes.FINDINGS.names
    return sorted((row["key"][0], row["node"], row["detail"]) for row in found.collect())
