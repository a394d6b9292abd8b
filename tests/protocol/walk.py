"""Walks through a world: to a settled state, at random, and to all successors."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tests.protocol.frozen import ViolationError
from tests.protocol.step import Step, step
from tests.protocol.values import ANY, Faults, State
from tests.protocol.world import World
from twopc.protocol.states import CoordinatorState


def heal(world: World, state: State, rounds: int = 12) -> State:
    """Stop all faults, and take every action that is due, in turn.

    Raises:
        ViolationError: not all branches are settled after `rounds` rounds, or they differ.
    """
    state = state._replace(faults=Faults(hasty=ANY, give_ups=1))
    for _ in range(rounds):
        while due := sorted(world.expected(state)):
            state = step(world, state, due[0])
        if world.is_settled(state):
            world.check_settled(state)
            return state
        main = world.main(state)
        if main is not None and main.state is CoordinatorState.ACTIVE:
            state = step(world, state, ("give_up",))
        for action in sorted(world.overdue(state)):
            if action[1:] in state.timers:
                state = step(world, state, action)
    raise ViolationError(f"not settled after {rounds} rounds: {state}")


def successors(world: World, state: State) -> Iterator[tuple[State, bool]]:
    """Yield every successor of a state, and whether it requires a fault; for `explore`."""
    for actions, fault in (
        (world.expected(state), False),
        (world.overdue(state), not world.is_quiet(state)),
        (world.decisions(state), False),
        (world.mishaps(state), True),
    ):
        for action in actions:
            taking = Step(world, state, None)
            yield taking.take(action), fault
            if state.faults.crashes:
                for count in range(taking.performed):
                    yield step(world, state, action, (count, False)), True
                    yield step(world, state, action, (count, True)), True
    for action in world.crashes(state):
        yield step(world, state, action), True


def wander(world: World, choices: Collection[int]) -> State:
    """Walk at random, where each number chooses the next action; then heal."""
    state = world.start()
    for choice in choices:
        choice, luck = divmod(choice, 32)
        calm = sorted(world.expected(state)) + list(world.decisions(state))
        wild = sorted(world.overdue(state)) + sorted(world.mishaps(state))
        wild += world.crashes(state)
        actions = calm if calm and (luck < 26 or not wild) else wild
        if not actions:
            break
        choice, index = divmod(choice, len(actions))
        # Occasionally a node crashes between two effects of a step.
        cut = (choice % 4, choice % 8 > 3) if luck == 0 and state.faults.crashes else None
        state = step(world, state, actions[index], cut)
    return heal(world, state)
