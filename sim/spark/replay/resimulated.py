"""One trial of a recorded load on the model, and where it went another way. Knows no Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from twopc.sim.report.history import Record
from twopc.sim.scenario.check import Loaded
from twopc.sim.spark.sweep.trial import simulated
from twopc.sim.workload.diverging import final, states
from twopc.sim.workload.replaying import Recording, replaying
from twopc.sim.workload.words import COMMITTED

Row = Mapping[str, Any]
_ENDS = ("ok", "rejected", "error", "in_doubt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """What is known of a recording besides its transactions."""

    load: Record
    """What it came to."""
    load_seed: int | None
    """By which it was drawn."""
    model_seed: int | None
    """Of the model, if it was played there."""
    states: tuple[Record, ...]
    """The tables at the end."""

    @classmethod
    def of(cls, records: Sequence[Record]) -> Self:
        """From a history, in its order."""
        by_kind: dict[str, Record] = {each.kind: each for each in records}

        def seed(kind: str) -> int | None:
            record = by_kind.get(kind)
            found = (record.data or {}).get("seed") if record is not None else None
            return None if found is None else int(found)

        return cls(
            load=by_kind["load"],
            load_seed=seed("drew"),
            model_seed=seed("info"),
            states=tuple(final(records)),
        )


def compared(
    loaded: Loaded,
    transactions: Sequence[Row],
    original: Original,
    *,
    seed: int | None,
    order: str = "",
    speed: float = 1.0,
    spread: bool = False,
) -> tuple[Row, list[dict[str, Any]]]:
    """Simulate it.

    Args:
        transactions: with `tx`, `session`, `node`, `step`, `due_us`, `statements` (`sql` and `params`, JSON text),
            and how each ended: `outcome`, `kind`.
        seed: None: as it was recorded.
        spread: let sessions take turns among the scenario's Subscribers, wherever they were.

    Returns:
        A row of `shapes.TRIALS`, and the divergences: class, article, key, session, call, expected, actual.
    """
    topology = loaded.scenario.topology
    calls = [
        {**each, "statements": [(made["sql"], json.loads(made["params"] or "{}")) for made in each["statements"]]}
        for each in transactions
    ]  # fmt: skip
    recording = Recording.of(calls, speed=speed)
    if spread:
        recording = recording.spread(topology.subscribers, topology.publisher)
    model_seed, load_seed = seed, seed
    if seed is None:
        load_seed = original.load_seed or 0
        model_seed = load_seed if original.model_seed is None else original.model_seed
    with replaying(recording):
        row, records = simulated(loaded, model_seed or 0, order=order, load_seed=load_seed)
    found = [*_outcomes(transactions, records), *states(original.states, records)]
    which = f", seed {seed}" if seed is not None else ""
    return row, [{**each, "call": f"{each['call']}{which}"} for each in found]


def record_of(row: Mapping[str, Any]) -> Record:
    """A row of `shapes.HISTORY` as the record that it was."""
    told = {name: row[name] for name in ("seq", "t_us", "kind")}
    for name in ("session", "node", "step", "gid", "sql", "tag", "sqlstate", "message"):
        told[name] = row[name] or ""
    for name in ("params", "rows", "conflict", "data"):
        told[name] = None if row[name] is None else json.loads(row[name])
    return Record(
        order=row["case"] or "", rowcount=row["rowcount"], number=row["number"] or 0, **told
    )


def _outcomes(transactions: Sequence[Row], records: Sequence[Record]) -> Iterator[dict[str, Any]]:
    ended: dict[int, str] = {}
    for record in records:
        if record.kind in _ENDS and "number" in (record.data or {}):
            kind = (record.conflict or {}).get("kind")
            ended[int((record.data or {})["number"])] = _said(record.kind, kind)
    for each in sorted(transactions, key=lambda each: int(each["tx"])):
        expected = _said(each["outcome"], each["kind"])
        actual = ended.get(each["tx"], "not ended")
        if actual != expected:
            yield {
                "class": "outcome", "session": each["session"],
                "call": f"transaction {each['tx']} ({each['step']})", "expected": expected, "actual": actual,
            }  # fmt: skip


def _said(outcome: str, kind: str | None) -> str:
    if outcome == COMMITTED:
        return "committed"
    return f"{outcome}: {kind}" if kind else outcome
