"""A load's transactions, read from its records, and the clients that execute them again.

Committed transactions can be repeated as recorded: in the order of their commits, and each after its Subscriber has
received all earlier commits, they have the same results. Without that order, or without deliveries, a transaction
that changes rows changed by others is refused. Alternatively, all transactions are simulated under other
conditions: each session begins a transaction no earlier than recorded, and retries it as the file says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from twopc.sim.replay.divergence import Divergence, final_states, of_states
from twopc.sim.replay.engine import RecordedTransaction, ReplayResult, replay
from twopc.sim.replay.lanes import Sync, lanes
from twopc.sim.report.history import History, HistoryRecord, OrderHistory
from twopc.sim.scenario import observe
from twopc.sim.scenario.stage import Stage
from twopc.sim.scenario.values import Case
from twopc.sim.workload.asyncio_bench import AsyncioBench
from twopc.sim.workload.attempts import attempt, leave
from twopc.sim.workload.load import AT_ONCE_MAX, Load
from twopc.sim.workload.ports import (
    COMMITTED,
    AttemptOutcome,
    ClientTransaction,
    LoadBench,
    LoadClient,
)
from twopc.together import together

#: Classes of divergence that a file can expect.
CLASSES = ("outcome", "rowcount", "state")
#: Number of divergences that are kept; all are counted.
SHOWN_MAX = 20

LoadTransaction = RecordedTransaction[ClientTransaction]


# -- sources ---------------------------------------------------------------------------------------


def committed(records: Sequence[HistoryRecord]) -> Iterator[LoadTransaction]:
    """Yield the committed transactions of a load, in the order in which their clients learned of the commits.

    For transactions that change the same row this is the order of their commits: the later one waits for the row,
    or has to receive it first.
    """
    for each in records:
        if each.kind == COMMITTED and each.data is not None and "calls" in each.data:
            calls = each.data["calls"]
            yield RecordedTransaction(
                number=each.data["number"],
                session=each.session,
                node=each.node,
                work=ClientTransaction(
                    number=each.data["number"],
                    name=each.step,
                    statements=tuple((call["sql"], call["params"]) for call in calls),
                ),
                rowcounts=tuple(call["rowcount"] for call in calls),
            )


def begun(calls: Sequence[Mapping[str, Any]], *, speed: float = 1.0) -> list[LoadTransaction]:
    """Return every transaction of a load, by number, with all its attempts as one.

    Args:
        calls: with `tx`, `session`, `node`, `step`, `due_us`, and `statements`: pairs of SQL and parameters.
        speed: multiple of the recorded pace.
    """
    return [
        RecordedTransaction(
            number=each["tx"],
            session=each["session"],
            node=each["node"],
            due_s=each["due_us"] / 1e6 / speed,
            work=ClientTransaction(
                number=each["tx"], name=each["step"], statements=tuple(each["statements"])
            ),
        )
        for each in sorted(calls, key=lambda each: int(each["tx"]))
    ]


def redistributed(
    transactions: Sequence[LoadTransaction], subscribers: Sequence[str], publisher: str
) -> list[LoadTransaction]:
    """Return the transactions with Subscribers' sessions distributed in turn over other Subscribers."""
    taken: dict[str, str] = {}
    for each in transactions:
        if each.node != publisher and each.session not in taken:
            taken[each.session] = subscribers[len(taken) % len(subscribers)]
    return [replace(each, node=taken.get(each.session, each.node)) for each in transactions]


# -- repeating committed transactions --------------------------------------------------------------


class ClientTarget:
    """A target that attempts each transaction once, in sessions of a stage.

    Args:
        delivers: the Subscribers that receive all commits before each of their transactions.
    """

    def __init__(
        self, bench: LoadBench, level: Callable[[str], str], delivers: Collection[str]
    ) -> None:
        self._bench = bench
        self._level = level
        self._delivers = delivers
        self._clients: dict[str, LoadClient] = {}

    async def carry_out(self, transaction: LoadTransaction) -> AttemptOutcome:
        """Attempt a transaction in its session, which is opened at its first one."""
        node, session = transaction.node, transaction.session
        if node in self._delivers:
            await self._bench.sync((node,))
        if session not in self._clients:
            self._clients[session] = await self._bench.client(session, node)
        return await attempt(self._clients[session], transaction.work, self._level(node))

    async def close(self) -> None:
        """Close all sessions."""
        for client in self._clients.values():
            await leave(client.close())


async def replay_load(case: Case, stage: Stage, history: OrderHistory) -> None:
    """Repeat a load on a stage in the load's initial state, and write the differences into the load's history."""
    assert case.scenario.replay is not None
    sync = Sync(case.scenario.replay.sync)
    divergences = await repeated(case, stage, history.records, sync)
    counts = Counter(each.kind for each in divergences)
    history.write(
        "info",
        message="replay",
        data={
            "sync": sync.value,
            "transactions": sum(1 for _ in committed(history.records)),
            "classes": {name: counts[name] for name in CLASSES},
            "divergences": [each.as_json() for each in divergences[:SHOWN_MAX]],
        },
    )


async def repeated(
    case: Case, stage: Stage, records: Sequence[HistoryRecord], sync: Sync
) -> list[Divergence]:
    """Execute a load's committed transactions again, and return the differences.

    Args:
        stage: in the load's initial state.
        records: the records of the load.
    """
    scenario = case.scenario
    subscribers = scenario.topology.subscribers
    bench = AsyncioBench(stage, ())
    target = ClientTarget(
        bench, partial(scenario.level, case.order), subscribers if sync.delivers else ()
    )
    transactions = [*committed(records)]
    count = len({each.session for each in transactions}) if sync is Sync.session else 1
    done: list[ReplayResult[ClientTransaction, AttemptOutcome]] = []
    await together(
        *(
            replay(lane, target.carry_out, bench, record=done.append)
            for lane in lanes(sync, transactions, count)
        )
    )
    await target.close()
    seen = History(None)
    after = seen.of(case.name)
    await observe.settled(scenario, stage, after, scenario.topology.timeouts.settle_ms / 1000)
    if subscribers:
        await bench.sync(subscribers)
    await observe.final_states(scenario, stage, after)
    return [
        *(result for each in done for result in _differs(each)),
        *of_states(final_states(records), seen.records),
    ]


def _differs(replayed: ReplayResult[ClientTransaction, AttemptOutcome]) -> Iterator[Divergence]:
    transaction, ended = replayed.transaction, replayed.outcome
    assert ended is not None, "nothing holds a transaction of a load back"
    divergence = partial(Divergence, session=transaction.session, call=call_of(transaction.work))
    if ended.kind != COMMITTED:
        actual = f"{ended.kind}: {ended.why}" if ended.why else ended.kind
        yield divergence(kind="outcome", expected="committed", actual=actual)
    elif (rowcounts := tuple(ended.rowcounts)) != transaction.rowcounts:
        was, now = (", ".join(map(str, each)) for each in (transaction.rowcounts, rowcounts))
        yield divergence(kind="rowcount", expected=was, actual=now)


def call_of(deed: ClientTransaction) -> str:
    """Return the text by which a divergence names a transaction."""
    return f"transaction {deed.number} ({deed.name})"


# -- simulating all transactions under other conditions --------------------------------------------


class RecordedLoad(Load):
    """See `twopc.sim.workload.load.Load`; the transactions, their times and nodes come from a recording."""

    def __init__(
        self, transactions: Sequence[LoadTransaction], *arguments: Any, **keywords: Any
    ) -> None:
        super().__init__(*arguments, **keywords)
        self._transactions = transactions
        self._own: dict[str, LoadClient] = {}

    def _length_s(self) -> float:
        return max([super()._length_s(), *(each.due_s or 0.0 for each in self._transactions)])

    def _is_timed(self) -> bool:
        """Return False: under other conditions the same transactions may take longer."""
        return False

    async def _begin(self) -> None:
        count = len({each.session for each in self._transactions})
        sessions = lanes(Sync.session, self._transactions, max(1, count))
        # more sessions share connections: at a rate, each transaction is one session
        if count <= AT_ONCE_MAX:
            for lane in sessions:
                name = lane[0].session
                self._own[name] = await self._connect(name, lane[0].node)
        self._began_s = self._bench.time()
        self._busy = count
        self._is_over = not sessions
        for lane in sessions:
            self._bench.spawn(self._session(lane), lane[0].session)

    async def _session(self, lane: Sequence[LoadTransaction]) -> None:
        await replay(lane, self.carry_out, self._bench, began_s=self._began_s)
        self._busy -= 1
        self._is_over = self._busy == 0

    async def carry_out(self, transaction: LoadTransaction) -> None:
        """Execute a transaction as its client does, with retries."""
        name, node, due_s = transaction.session, transaction.node, transaction.due_s or 0.0
        self.figures.started(due_s)
        free = self._clients.setdefault(node, [])
        own = self._own.get(name)
        client = own or (free.pop() if free else await self._connect(name, node))
        try:
            await self._carry_out(name, node, client, transaction.work, due_s)
        finally:
            if own is None:
                free.append(client)
