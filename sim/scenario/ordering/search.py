"""Search for one order of each class that may be feasible, guided by the results of earlier orders."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from twopc.sim.scenario.model import Order, Scenario
from twopc.sim.scenario.ordering.enumerate import Space
from twopc.sim.scenario.ordering.footprint import Dependence, Guess
from twopc.sim.scenario.ordering.reduce import Classes, OrderPrefix
from twopc.sim.scenario.values import CaseLesson

#: Number of prefixes that are examined; the remaining orders are left out.
LOOK_AT_MAX = 100_000


class OrderSearch:
    """The first order of each class of a space, without those that are known to be infeasible.

    Where a session is known to be blocked, no prefix is examined in which it continues. Where a session is only
    assumed to be blocked, the prefix is deferred: other orders may prove that the session is blocked, so that it
    need not be tried.
    """

    def __init__(self, scenario: Scenario, order: Order, space: Space) -> None:
        assert order.generate is not None, "a listed order is not looked for"
        self._home = {name: session for name, (session, _) in scenario.steps.items()}
        self._sessions = tuple(scenario.sessions)
        self._dependence = Dependence(scenario, order)
        self.classes = Classes(space, self._dependence, order.generate.pairs)
        self._waits: dict[tuple[str, int], bool] = {}
        """By step and the key of the played steps that may affect it: whether it waits."""
        self._put_off: deque[tuple[OrderPrefix, OrderPrefix]] = deque()
        self._looked_at = 0

    @property
    def gave_up(self) -> bool:
        """Whether the limit of examined prefixes was reached."""
        return self._looked_at >= LOOK_AT_MAX

    def learn(self, order: Sequence[str], learned: CaseLesson) -> None:
        """Record the result of playing `order`."""
        for played, beginning in enumerate(self.classes.prefixes(order)):
            if played == learned.infeasible_at:
                self._note(beginning, self._home[order[played]], waits=True)
            for session in self._sessions if played in learned.blocked else ():
                self._note(beginning, session, waits=session in learned.blocked[played])

    def _note(self, beginning: OrderPrefix, session: str, *, waits: bool) -> None:
        known = self._state(beginning, session)
        if known is not None:
            self._waits[known] = waits

    def _state(self, beginning: OrderPrefix, session: str) -> tuple[str, int] | None:
        """Return the session's last step and a key of all that determines whether it waits; None if it cannot wait.

        The key covers the steps that acquire or release the locks that it needs, and the steps that may have
        affected them.
        """
        own = [step for step in beginning.steps if self._home[step] == session]
        if not own or not self._dependence.may_wait(own[-1]):
            return None
        about = [step for step in beginning.steps if self._dependence.may_end(own[-1], step)]
        return own[-1], self.classes.past(beginning, [own[-1], *about])

    def waits(self, beginning: OrderPrefix, step: str) -> bool | None:
        """Return whether the session of `step` is blocked, so that `step` cannot come next; None if unknown."""
        state = self._state(beginning, self._home[step])
        return False if state is None else self._waits.get(state)

    def is_infeasible(self, order: Sequence[str]) -> bool:
        """Return whether an order is known to require a blocked session to continue."""
        beginnings = self.classes.prefixes(order)
        return any(self.waits(*each) for each in zip(beginnings, order, strict=False))

    def orders(self) -> Iterator[tuple[str, ...]]:
        """Yield the orders that are not assumed to be infeasible, by rank."""
        return self._orders(self.classes.begin, Guess())

    @property
    def has_put_off(self) -> bool:
        """Whether there is a deferred prefix that is not known to be infeasible."""
        while self._put_off and self._is_known(*self._put_off[0]):
            self._put_off.popleft()
        return bool(self._put_off)

    def put_off(self) -> Iterator[tuple[str, ...]]:
        """Yield the orders of the first deferred prefix, which was only assumed to be infeasible."""
        shorter, longer = self._put_off.popleft()
        return self._below(shorter, longer, None)

    def _orders(self, here: OrderPrefix, guess: Guess | None) -> Iterator[tuple[str, ...]]:
        for longer in self.classes.going_on(here):
            self._looked_at += 1
            if self.gave_up:
                return
            if self._is_known(here, longer):
                continue
            after = None
            if guess is not None:
                after = self._guess(guess, here, longer)
                if after is None:
                    self._put_off.append((here, longer))
                    continue
            yield from self._below(here, longer, after)

    def _guess(self, guess: Guess, here: OrderPrefix, longer: OrderPrefix) -> Guess | None:
        step, *more = longer.steps[len(here.steps) :]
        session = self._home[step]
        if session in guess.waits and self.waits(here, step) is False:
            guess = guess.without(session)
        return self._dependence.guess(guess, (step, *more))

    def _below(
        self, shorter: OrderPrefix, longer: OrderPrefix, guess: Guess | None
    ) -> Iterator[tuple[str, ...]]:
        """Yield the orders that begin with `longer`, until all of them are known to be infeasible."""
        if self.classes.is_whole(longer):
            yield longer.steps
            return
        for order in self._orders(longer, guess):
            yield order
            if self._is_known(shorter, longer):
                return

    def _is_known(self, shorter: OrderPrefix, longer: OrderPrefix) -> bool:
        """Return whether the steps that `longer` adds to `shorter` are known to be impossible there."""
        if self.waits(shorter, longer.steps[len(shorter.steps)]):
            return True
        together = len(longer.steps) - len(shorter.steps) > 1
        return together and self.is_infeasible(longer.steps)
