"""A load's committed transactions, carried out once more on a stage of its own, from the load's history.

In the order of their commits, each once its Subscriber has what was committed before, everything comes out as it
was recorded. Without that order, or without deliveries, whoever writes to rows that others have changed is refused.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from twopc.sim.report.history import History, OrderHistory, Record
from twopc.sim.scenario.observe import final_states, settled
from twopc.sim.scenario.stage import Stage
from twopc.sim.scenario.words import Case
from twopc.sim.workload.asyncio_bench import AsyncioBench
from twopc.sim.workload.attempts import attempt, leave
from twopc.sim.workload.diverging import final, states
from twopc.sim.workload.words import COMMITTED, Client, Deed
from twopc.together import together

CLASSES = ("outcome", "rowcount", "state")
#: So many divergences are noted; all are counted.
SHOWN_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A recorded transaction that was committed."""

    session: str
    node: str
    deed: Deed
    rowcounts: tuple[int, ...]


def committed(records: Sequence[Record]) -> list[Committed]:
    """Those of a load, in the order in which their clients knew of it.

    Of transactions that are about one row that is the order of their commits: whoever comes later waits for the
    row, or has to get it first.
    """
    return [
        Committed(
            session=each.session,
            node=each.node,
            deed=Deed(
                number=each.data["number"],
                name=each.step,
                statements=tuple((made["sql"], made["params"]) for made in each.data["calls"]),
            ),
            rowcounts=tuple(made["rowcount"] for made in each.data["calls"]),
        )
        for each in records
        if each.kind == COMMITTED and each.data is not None and "calls" in each.data
    ]


async def redo(case: Case, stage: Stage, history: OrderHistory) -> None:
    """Do it on a stage that is as the load's was at first, and note in the load's history what came of it."""
    assert case.scenario.replay is not None
    sync = case.scenario.replay.sync
    found = await carried_out(case, stage, history.records, sync)
    counts = Counter(each["class"] for each in found)
    history.write(
        "info",
        message="replay",
        data={
            "sync": sync,
            "transactions": len(committed(history.records)),
            "classes": {name: counts[name] for name in CLASSES},
            "divergences": found[:SHOWN_MAX],
        },
    )


async def carried_out(
    case: Case, stage: Stage, records: Sequence[Record], sync: str
) -> list[dict[str, Any]]:
    """Carry a load's committed transactions out once more; everything that came out otherwise.

    Args:
        stage: as the load's was at first.
        records: of the load.
        sync: ``commit``, ``rows``, ``session`` or ``off``.

    Returns:
        `class` (one of `CLASSES`), `session` and `call`, or `article` and `key`; `expected` and `actual`.
    """
    scenario = case.scenario
    recorded = committed(records)
    bench = AsyncioBench(stage, ())
    again = _Again(case, bench)
    if sync in ("commit", "rows"):
        await again.play(recorded, deliver=True)
    elif sync == "off":
        await again.play(sorted(recorded, key=lambda each: _mixed(each.deed.number)), deliver=False)
    else:
        sessions: dict[str, list[Committed]] = {}
        for each in recorded:
            sessions.setdefault(each.session, []).append(each)
        await together(*(again.play(found, deliver=False) for found in sessions.values()))
    await again.close()
    await settled(scenario, stage, scenario.topology.timeouts.settle_ms / 1000)
    if scenario.topology.subscribers:
        await bench.sync(scenario.topology.subscribers)
    seen = History(None)
    await final_states(scenario, stage, seen.of(case.name))
    return [*again.divergences, *states(final(records), seen.records)]


def _mixed(number: int) -> int:
    """A place that has nothing to do with the number, and is the same each time."""
    return zlib.crc32(str(number).encode())


class _Again:
    """Carries transactions out, and notes what ends otherwise."""

    def __init__(self, case: Case, bench: AsyncioBench) -> None:
        self._scenario = case.scenario
        self._order = case.order
        self._bench = bench
        self._clients: dict[str, Client] = {}
        self.divergences: list[dict[str, Any]] = []

    async def play(self, transactions: Sequence[Committed], *, deliver: bool) -> None:
        """One after the other."""
        for each in transactions:
            if deliver and each.node in self._scenario.topology.subscribers:
                await self._bench.sync((each.node,))
            client = self._clients.get(each.session)
            if client is None:
                client = await self._bench.client(each.session, each.node)
                self._clients[each.session] = client
            ended = await attempt(client, each.deed, self._scenario.level(self._order, each.node))
            self.divergences += _differs(each, ended.kind, ended.why, tuple(ended.rowcounts))

    async def close(self) -> None:
        """Disconnect."""
        for client in self._clients.values():
            await leave(client.close())


def _differs(
    recorded: Committed, kind: str, why: str, rowcounts: tuple[int, ...]
) -> Iterator[dict[str, Any]]:
    about = {
        "session": recorded.session,
        "call": f"transaction {recorded.deed.number} ({recorded.deed.name})",
    }
    if kind != COMMITTED:
        said = f"{kind}: {why}" if why else kind
        yield {**about, "class": "outcome", "expected": "committed", "actual": said}
    elif rowcounts != recorded.rowcounts:
        was, is_ = (", ".join(map(str, each)) for each in (recorded.rowcounts, rowcounts))
        yield {**about, "class": "rowcount", "expected": was, "actual": is_}
