"""Functions of an ordinary application, played in every order in which they could run concurrently.

Each sequence of functions has a thread. The next function is called as soon as all running ones have ended or
provably wait in the database. Independent of what the functions do.
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
    """The result of playing one order."""

    order: tuple[str, ...]
    """Names of the steps, in the order of their calls."""
    results: Mapping[str, Any] = field(default_factory=dict)
    """Return value of each function that returned, by step."""
    errors: Mapping[str, BaseException] = field(default_factory=dict)
    """Exception of each function that raised, by step; the rest of its sequence was not called."""
    waits: Mapping[str, str] = field(default_factory=dict)
    """Steps that had to wait, each with the holder: a sequence, or another holder of the lock."""

    @property
    def text(self) -> str:
        """The order in one line."""
        return " ".join(self.order)

    def reraise(self) -> None:
        """Raise the first of the errors, if there is one."""
        for error in self.errors.values():
            raise error


class Orders(Sequence[OrderRun]):
    """The orders that were played, and the number of all orders."""

    def __init__(self, played: Sequence[OrderRun], *, count: int, infeasible: int) -> None:
        self._played = tuple(played)
        self.total = count
        """Number of orders that fulfil the constraints."""
        self.infeasible = infeasible
        """Number of those that were seen to be impossible: a step would belong to a sequence that is blocked."""

    def __getitem__(self, at: Any) -> Any:
        return self._played[at]

    def __len__(self) -> int:
        return len(self._played)

    def __repr__(self) -> str:
        return f"<{len(self)} of {self.total} orders played, {self.infeasible} cannot happen>"


class _InfeasibleError(Exception):
    """Raised when the next step belongs to a sequence that is blocked."""

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
    """Restore the rows of the first order; if that is not possible, add the preceding order to the error."""
    __tracebackhide__ = True
    topology.call(topology.bed.close_sessions)
    try:
        topology.call(rewind, topology.bed.topology, kept)
    except RewindError as error:
        if topology.bed.order:
            error.add_note(f"after the order: {topology.bed.order}")
        raise


def _judge(run: OrderRun, check: Callable[[OrderRun], None] | None) -> None:
    """Raise the run's error, or that of the check, with the order added."""
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
    """Return the two steps of ``a0 < b1``.

    Raises:
        ConfigurationError: the text has another form, or there is no such step.
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
    """Yield the orders to play: all of them up to the limit, a sample, or a requested one."""
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
    """The play of one order."""

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
        """Steps of each sequence whose turn has come and that were not called yet."""
        self._threads: dict[str, ThreadPoolExecutor] = {}
        self._steps: dict[str, str] = {}
        """Last step of each sequence that was called."""
        self._owners: dict[tuple[str, int, float], str] = {}
        """Sequence whose function has begun a transaction, by node, process and beginning of the transaction."""
        self._latest = ""
        """Sequence whose function was called last."""
        self._recorder = topology.bed.recorder

    def play(self, order: Sequence[str]) -> OrderRun:
        """Call every function in its turn.

        Raises:
            _InfeasibleError: a function's turn came while its sequence was blocked.
            AssertionError: a function has neither ended nor waits within the time limit.
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
                # otherwise the threads would never end
                self._topology.call(self._topology.bed.cut_off)
                raise
        if infeasible is not None:
            raise infeasible
        return OrderRun(
            order=tuple(order), results=self._results, errors=self._errors, waits=self._waits
        )

    def _launch(self) -> None:
        """Call the functions whose turn has come, one after the other, each once all running ones have ended or
        wait.
        """
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
        """Wait until every function has ended or waits in the database; or, not `quiet`, until one has ended."""
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
        """Attribute transactions begun meanwhile to the sequence whose function was called last."""
        for one in await self._topology.bed.surroundings.observer.transactions():
            name = self._owners.setdefault((one.node, one.pid, one.xact_start), self._latest)
            if name == self._latest and not self._recorder.nodes.get(name) and not _is_link(one):
                self._recorder.session(name, one.node)

    def _owner(self, wait: Wait) -> str:
        """Return the sequence that holds the lock of a wait; empty if none does."""
        held = (
            name
            for (node, pid, _), name in reversed(self._owners.items())
            if (node, pid) == (wait.node, wait.pid)
        )
        return next(held, "")

    def _awaited(self, running: Future[Any]) -> asyncio.Future[Any]:
        """Return the asyncio future of a running function, the same one at each call."""
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
        """Record a new wait, which is that of the function called last."""
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
            f"a session waits at {each.node} for {each.holder} ({each.lock})" for each in waits
        )
        return (
            f"{running} has not ended after {timeout_s:g} s"
            + (f": {why}" if why else "")
            + ". Does every function commit or roll back what it has begun, in the last one of its sequence?"
        )


def _is_link(one: OpenTransaction) -> bool:
    """Whether a transaction belongs to a link from a Subscriber."""
    return one.application_name.startswith("msrepl ")


def _takes_one(function: Callable[..., Any]) -> bool:
    """Whether a function has a parameter, for which it is passed the topology."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(
        each.default is each.empty
        and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        for each in parameters
    )
