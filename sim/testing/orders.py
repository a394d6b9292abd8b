"""Functions of an ordinary application, played in every order in which they could meet.

Each sequence of functions has a thread. One function is called after the other, and the next as soon as all that
run have ended or provably wait in the database. It must not know what they do there.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from twopc.errors import ConfigurationError
from twopc.sim.scenario.ordering.enumerate import Space
from twopc.sim.sessions.waits import LOOK_EVERY_S, RepeatedLook, Wait
from twopc.sim.testing.blame import own_trace
from twopc.sim.testing.recording import failed
from twopc.sim.testing.surroundings import NotEndedError
from twopc.sim.topology.checkpoint import Checkpoint, RewindError, checkpoint, rewind
from twopc.waits import OpenTransaction

if TYPE_CHECKING:
    from twopc.sim.testing.blocking_bench import TestTopology

Callables = Mapping[str, Sequence[Callable[..., Any]]]

_BEFORE = re.compile(r"\s*(\S+)\s*<\s*(\S+)\s*\Z")
_SAMPLE = re.compile(r"sample:(\d+)\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRun:
    """What became of one order."""

    order: tuple[str, ...]
    """The steps' names, as they were called."""
    results: Mapping[str, Any] = field(default_factory=dict)
    """What each function returned, by its step; those that raised are not here."""
    errors: Mapping[str, BaseException] = field(default_factory=dict)
    """What it raised; the rest of its sequence was not called then."""
    waits: Mapping[str, str] = field(default_factory=dict)
    """The steps that had to wait, and for whom: a sequence, or whoever else holds the lock."""

    @property
    def text(self) -> str:
        """The order in one line."""
        return " ".join(self.order)

    def reraise(self) -> None:
        """Raise the first error that there is."""
        for error in self.errors.values():
            raise error


class Orders(Sequence[OrderRun]):
    """The orders that were played, and how many there are."""

    def __init__(self, played: Sequence[OrderRun], *, count: int, infeasible: int) -> None:
        self._played = tuple(played)
        self.total = count
        """How many orders fulfil the constraints."""
        self.infeasible = infeasible
        """Of those, how many cannot happen as far as was seen: a step belongs to a sequence that is blocked."""

    def __getitem__(self, at: Any) -> Any:
        return self._played[at]

    def __len__(self) -> int:
        return len(self._played)

    def __repr__(self) -> str:
        return f"<{len(self)} of {self.total} orders played, {self.infeasible} cannot happen>"


class _InfeasibleError(Exception):
    """The next step belongs to a sequence that is blocked."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


def run_orders(
    topology: TestTopology,
    callables: Callables,
    *,
    before: Sequence[str],
    limit: int,
    check: Callable[[OrderRun], None] | None,
) -> Orders:
    """See `twopc.sim.testing.blocking_bench.TestTopology.run_orders`."""
    __tracebackhide__ = True
    steps = {name: [f"{name}{n}" for n in range(len(each))] for name, each in callables.items()}
    known = {step: name for name, each in steps.items() for step in each}
    if len(known) != sum(map(len, steps.values())):
        raise ConfigurationError("two functions are called the same: sequences 'a' and 'a1' clash")
    space = Space(list(steps.values()), [pair(text, known) for text in before])
    functions = {
        step: function
        for name, each in callables.items()
        for step, function in zip(steps[name], each, strict=True)
    }
    kept = topology.call(checkpoint, topology.bed.topology)
    played: list[OrderRun] = []
    hopeless: set[tuple[str, ...]] = set()
    infeasible = 0
    for order in _chosen(space, topology, limit, known):
        if any(order[: at + 1] in hopeless for at in range(len(order))):
            infeasible += 1
            continue
        _renew(topology, kept)
        topology.bed.begin_order(" ".join(order))
        try:
            run = _Play(topology, functions, known).play(order)
        except _InfeasibleError as result:
            hopeless.add(order[: result.at + 1])
            infeasible += 1
            continue
        played.append(run)
        _judge(run, check)
    topology.bed.begin_order("")
    return Orders(played, count=space.count, infeasible=infeasible)


def _renew(topology: TestTopology, kept: Checkpoint) -> None:
    """Put everything back to what it was, and say after which order that was not possible."""
    __tracebackhide__ = True
    topology.call(topology.bed.close_sessions)
    try:
        topology.call(rewind, topology.bed.topology, kept)
    except RewindError as error:
        if topology.bed.order:
            error.add_note(f"after the order: {topology.bed.order}")
        raise


def _judge(run: OrderRun, check: Callable[[OrderRun], None] | None) -> None:
    """Say in which order it was, whatever goes wrong."""
    __tracebackhide__ = True
    try:
        for error in run.errors.values():
            if check is None or isinstance(error, AssertionError):
                raise error.with_traceback(own_trace(error)) from error.__cause__
        if check is not None:
            check(run)
    except BaseException as error:
        error.add_note(f"in the order: {run.text}")
        raise


def pair(text: str, known: Mapping[str, str]) -> tuple[str, str]:
    """The two steps of ``a0 < b1``.

    Raises:
        ConfigurationError: it is not written so, or there is no such step.
    """
    match = _BEFORE.match(text)
    if match is None:
        raise ConfigurationError(f"before={text!r}: write it as 'a0 < b1'")
    for step in match.groups():
        if step not in known:
            raise ConfigurationError(
                f"before={text!r}: no step {step!r}; steps are {', '.join(known)}"
            )
    return match[1], match[2]


def _chosen(
    space: Space, topology: TestTopology, limit: int, known: Mapping[str, str]
) -> Iterator[tuple[str, ...]]:
    """The orders to play: all of them up to the limit, a sample, or the one that was asked for."""
    requested = topology.orders
    sample = _SAMPLE.match(requested)
    if sample is not None:
        chance = random.Random(topology.seed)
        count = min(int(sample[1]), space.count)
        for rank in sorted(chance.sample(range(1, space.count + 1), count)):
            yield space.unrank(rank)
        return
    if requested and requested != "all":
        order = tuple(requested.split())
        if set(order) == known.keys():
            yield space.unrank(space.rank(order))
            return
        raise ConfigurationError(
            f"--twopc-orders {requested!r} names other steps than there are: {' '.join(known)}"
        )
    for at, order in enumerate(space.every()):
        if requested != "all" and at >= limit:
            return
        yield order


class _Play:
    """One order."""

    def __init__(
        self,
        topology: TestTopology,
        functions: Mapping[str, Callable[..., Any]],
        known: Mapping[str, str],
    ) -> None:
        self._topology = topology
        self._functions = functions
        self._known = known
        self._running: dict[str, Future[Any]] = {}
        self._wrapped: dict[Future[Any], asyncio.Future[Any]] = {}
        self._results: dict[str, Any] = {}
        self._errors: dict[str, BaseException] = {}
        self._waits: dict[str, str] = {}
        self._over: set[str] = set()
        """Sequences in which a function has raised."""
        self._turns: dict[str, deque[str]] = {}
        """The steps of each sequence whose turn has come, and that were not called."""
        self._threads: dict[str, ThreadPoolExecutor] = {}
        self._steps: dict[str, str] = {}
        """The last step of each sequence that was called."""
        self._owners: dict[tuple[str, int, float], str] = {}
        """Node, process and beginning of a transaction: the sequence whose function has begun it."""
        self._latest = ""
        """The sequence whose function was called last."""
        self._recorder = topology.bed.recorder

    def play(self, order: Sequence[str]) -> OrderRun:
        """Call every function in its turn.

        Raises:
            _InfeasibleError: the turn of one came while its sequence was blocked.
            AssertionError: something has neither ended nor waits within the time limit.
        """
        infeasible: _InfeasibleError | None = None
        with ExitStack() as stack:
            self._threads = {
                name: stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix=name))
                for name in dict.fromkeys(self._known.values())
            }
            try:
                for at, step in enumerate(order):
                    name = self._known[step]
                    if name in self._running and infeasible is None:
                        infeasible = _InfeasibleError(at)
                    self._turns.setdefault(name, deque()).append(step)
                    self._launch()
                while self._running:
                    self._topology.call(self._until, False)
                    self._launch()
            except BaseException:
                self._topology.call(self._topology.bed.cut_off)  # or the threads would never end
                raise
        if infeasible is not None:
            raise infeasible
        return OrderRun(
            order=tuple(order), results=self._results, errors=self._errors, waits=self._waits
        )

    def _launch(self) -> None:
        """Call what has its turn, one after the other, each until all is quiet."""
        while True:
            ready = [
                name for name, turns in self._turns.items() if turns and name not in self._running
            ]
            if not ready:
                return
            step = self._turns[ready[0]].popleft()
            if ready[0] not in self._over:
                self._steps[ready[0]] = step
                self._topology.call(self._begin, ready[0], step)
                self._running[ready[0]] = self._threads[ready[0]].submit(self._call, step)
                self._topology.call(self._until, True)

    async def _begin(self, name: str, step: str) -> None:
        self._latest = name
        self._recorder.session(name, self._recorder.nodes.get(name, ""))
        function = self._functions[step]
        called = getattr(function, "__qualname__", type(function).__name__)
        self._recorder.write(
            "invoke", session=name, step=step, sql=f"{called.rpartition('>.')[2]}()"
        )

    def _call(self, step: str) -> Any:
        function = self._functions[step]
        return function(self._topology) if _takes_one(function) else function()

    async def _until(self, quiet: bool) -> None:
        """Until every function has ended or waits in the database; or, not `quiet`, until one has ended."""
        surroundings = self._topology.bed.surroundings
        loop = asyncio.get_running_loop()
        until = loop.time() + surroundings.timeout_s
        repeated = RepeatedLook()
        while self._running:
            running = {self._awaited(each) for each in self._running.values()}
            await asyncio.wait(running, timeout=LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
            if self._collect():
                await self._attribute()
                if not quiet:
                    return
                repeated.clear()
                continue
            looked = await surroundings.observer.look(surroundings.clients())
            waits = sorted(looked.every, key=lambda each: (each.node, each.holder, each.pid))
            if any(each.done() for each in self._running.values()):
                continue
            if repeated.confirms(waits) and quiet and len(waits) >= len(self._running):
                await self._attribute()
                self._note(waits)
                return
            if loop.time() > until:
                raise NotEndedError(self._stuck(waits, surroundings.timeout_s))

    async def _attribute(self) -> None:
        """Whose transactions have been begun since: of the sequence whose function was called last."""
        for one in await self._topology.bed.surroundings.observer.transactions():
            name = self._owners.setdefault((one.node, one.pid, one.xact_start), self._latest)
            if name == self._latest and not self._recorder.nodes.get(name) and not _is_link(one):
                self._recorder.session(name, one.node)

    def _owner(self, wait: Wait) -> str:
        """The sequence that a wait is for; empty if it is for nobody's."""
        held = (
            name
            for (node, pid, _), name in reversed(self._owners.items())
            if (node, pid) == (wait.node, wait.pid)
        )
        return next(held, "")

    def _awaited(self, running: Future[Any]) -> asyncio.Future[Any]:
        """What the event loop waits for: one for each, however often it is looked at."""
        if running not in self._wrapped:
            wrapped = self._wrapped[running] = asyncio.wrap_future(running)
            wrapped.add_done_callback(lambda done: done.cancelled() or done.exception())
        return self._wrapped[running]

    def _collect(self) -> bool:
        ended = [name for name, each in self._running.items() if each.done()]
        for name in ended:
            future, step = self._running.pop(name), self._steps[name]
            self._wrapped.pop(future, None)
            error = future.exception()
            if error is None:
                self._results[step] = future.result()
                self._recorder.write("ok", session=name, step=step)
            else:
                self._errors[step] = error
                self._over.add(name)
                kind, fields = failed(error, "")
                self._recorder.write(kind, session=name, step=step, **fields)
        return bool(ended)

    def _note(self, waits: Sequence[Wait]) -> None:
        """The one that waits newly is the one that was called last."""
        for name, step in self._steps.items():
            if name not in self._running or step in self._waits:
                continue
            wait = waits[-1]
            owner = self._owner(wait)
            self._waits[step] = owner or wait.holder
            text = wait.record(step=self._steps.get(owner, ""))
            text |= {"session": owner} if owner else {"application": wait.application}
            self._recorder.write("blocked", session=name, step=step, wait=text)

    def _stuck(self, waits: Sequence[Wait], timeout_s: float) -> str:
        running = ", ".join(self._steps[name] for name in self._running)
        why = "; ".join(
            f"somebody waits at {each.node} for {each.holder} ({each.lock})" for each in waits
        )
        return (
            f"{running} has not ended after {timeout_s:g} s"
            + (f": {why}" if why else "")
            + ". Does every function commit or roll back what it has begun, in the last one of its sequence?"
        )


def _is_link(one: OpenTransaction) -> bool:
    """A session of ours at the Publisher, for one at a Subscriber."""
    return one.application_name.startswith("msrepl ")


def _takes_one(function: Callable[..., Any]) -> bool:
    """It wants the topology."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(
        each.default is each.empty
        and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        for each in parameters
    )
