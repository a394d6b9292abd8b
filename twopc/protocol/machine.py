"""Base class of both machines: dispatches events by a transition table, and refuses events not in the table.

Independent of two-phase commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from twopc.errors import LocalProtocolError, RemoteProtocolError
from twopc.protocol.effects import Effect
from twopc.protocol.events import Event
from twopc.protocol.states import State, Table

_Handler = Callable[[Any, Any, float], tuple[Effect, ...]]


class Machine:
    """A state, and a table that maps each event in each state to a method.

    A subclass names its table: ``class Coordinator(Machine, table=COORDINATOR)``. A row's action ``begin`` is the
    method ``_begin(event, now)``.
    """

    __slots__ = ("_state",)

    _rows: ClassVar[Mapping[State, Mapping[type[Event], _Handler]]] = {}
    table: ClassVar[Table] = {}

    def __init_subclass__(cls, table: Table | None = None) -> None:
        """Bind the table's actions to this class's methods."""
        super().__init_subclass__()
        if table is not None:
            cls.table = table
        rows: dict[State, dict[type[Event], _Handler]] = {}
        for (state, event), row in cls.table.items():
            rows.setdefault(state, {})[event] = getattr(cls, f"_{row.action}")
            for after in row.next:
                rows.setdefault(after, {})
        cls._rows = rows

    def __init__(self, state: State) -> None:
        self._state = state

    @property
    def state(self) -> State:
        """The machine's current state."""
        return self._state

    def receive(self, event: Event, now: float) -> tuple[Effect, ...]:
        """Process one event and return the effects that the driver must perform, in order.

        Args:
            event: the event to process.
            now: seconds on a monotonic clock; deadlines are computed from it.

        Raises:
            LocalProtocolError: the event is not allowed here, and came from the driver or application.
            RemoteProtocolError: the event is not allowed here, and came from the peer.

        After either error, the machine is unchanged.
        """
        handler = self._rows[self._state].get(type(event))
        if handler is None:
            raise self._refusal(event, "has no place here")
        return handler(self, event, now)

    def _refusal(self, event: Event, why: str) -> LocalProtocolError | RemoteProtocolError:
        kind = RemoteProtocolError if event.remote else LocalProtocolError
        return kind(f"{type(self).__name__} in state {self._state}: {event} {why}")

    def _ignore(self, event: Event, now: float) -> tuple[Effect, ...]:
        return ()
