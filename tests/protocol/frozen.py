"""Machines that are shared between states and never changed.

`Frozen` caches the result of each event, so that no machine receives an event twice in the same
state. It also checks that every transition is in the table, and records it in `visited`.
"""

from __future__ import annotations

from twopc.errors import ProtocolError
from twopc.protocol import events as e
from twopc.protocol.effects import Effect
from twopc.protocol.machine import Machine
from twopc.protocol.states import State

#: A row of a table, and one of its next states: machine and state, event, next state.
Way = tuple[str, type[e.Event], str]

#: The ways taken in any world.
visited: set[Way] = set()


class ViolationError(AssertionError):
    """The protocol violated an invariant."""


class Registry:
    """All machines of one world, without duplicates."""

    def __init__(self, *, strict: bool = True) -> None:
        self.strict = strict
        """Whether a transition outside the table is a violation; a planted bug may need one."""
        self._machines: dict[tuple[object, ...], Frozen] = {}

    def freeze(self, machine: Machine) -> Frozen:
        """Return the `Frozen` that represents all machines equal to this one."""
        key = fingerprint(machine)
        found = self._machines.get(key)
        if found is None:
            found = self._machines[key] = Frozen(machine, self)
        return found


class Frozen:
    """A machine that is never changed, with the result of each event that it has received."""

    __slots__ = ("_after", "_registry", "machine")

    def __init__(self, machine: Machine, registry: Registry) -> None:
        self.machine = machine
        self._registry = registry
        self._after: dict[e.Event, tuple[Frozen, tuple[Effect, ...]]] = {}

    def receive(self, event: e.Event) -> tuple[Frozen, tuple[Effect, ...]]:
        """Return the machine after `event`, and its effects.

        Raises:
            ViolationError: the machine refused the event, or made a transition outside its table.
        """
        known = self._after.get(event)
        if known is not None:
            return known
        before = self.machine
        after = clone(before)
        try:
            effects = after.receive(event, 0.0)
        except ProtocolError as error:
            raise ViolationError(f"refused: {error}") from error
        if self._registry.strict:
            if after.state not in before.table[before.state, type(event)].next:
                raise ViolationError(f"not in the table: {before.state}, {event}, {after.state}")
            visited.add((place(before.state), type(event), after.state))
        result = self._after[event] = (self._registry.freeze(after), effects)
        return result


def place(state: State) -> str:
    """Return machine and state, because both machines have states of the same name."""
    return f"{type(state).__name__}.{state}"


def clone(machine: Machine) -> Machine:
    """Return a copy that shares no mutable value with the machine."""
    copy = object.__new__(type(machine))
    for name in _slots(type(machine)):
        value = getattr(machine, name)
        setattr(copy, name, dict(value) if name == "_branches" else value)
    return copy


def fingerprint(machine: Machine) -> tuple[object, ...]:
    """Return a value that is equal for machines that behave alike from now on."""
    values: list[object] = [type(machine)]
    for name in _slots(type(machine)):
        value = getattr(machine, name)
        if name == "_branches":
            value = tuple(value.items())
        elif name in ("_settings", "reason"):
            continue
        values.append(value)
    return tuple(values)


_slots_of: dict[type, tuple[str, ...]] = {}


def _slots(kind: type) -> tuple[str, ...]:
    if kind not in _slots_of:
        _slots_of[kind] = tuple(s for base in kind.__mro__ for s in getattr(base, "__slots__", ()))
    return _slots_of[kind]
