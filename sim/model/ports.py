"""Interfaces between the parts of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from twopc.sim.model.values import RowChange, Steps

if TYPE_CHECKING:
    from twopc.sim.model.node.tx import OpenTx


class RecorderPort(Protocol):
    """Receives what happens in the model; the stage makes history records of it, the bench writes lines."""

    def write(self, kind: str, **fields: Any) -> Any:
        """Record an event; see `twopc.sim.report.history.History.write`."""
        ...

    def drew(self, name: str, value: Any) -> None:
        """Record a parameter that was drawn, for ``env.json``."""
        ...


class Trigger(Protocol):
    """A trigger; those of one kind fire in the order of their names, as in PostgreSQL."""

    name: str
    when: str
    """One of ``before row``, ``after rows`` (for all rows of a statement, before the effects of each), ``after
    row``, ``after statement``, ``deferred``.
    """
    operations: frozenset[str]
    fires: str
    """One of ``origin``, ``always``, ``replica`` or ``disabled``."""

    def fire(
        self, tx: OpenTx, table: str, changes: Sequence[RowChange]
    ) -> Steps[Sequence[RowChange] | None]:
        """Fire the trigger: `changes` has one change for a row trigger, all for a statement's.

        A BEFORE trigger returns the changes to store.
        """
        ...
