"""Models of a scenario file for faults: point, occasion, action, and end.

They check shapes only, as in `twopc.sim.scenario.model`; this module does not inject faults.
"""

# ruff: noqa: RUF012 -- pydantic copies the defaults of fields, and the other mappings are constants

from __future__ import annotations

from twopc.sim.scenario.parts import Name, Part, Whole


class ArrivalSelection(Part):
    """The arrival at its point at which a fault strikes."""

    what = "an occasion"
    blank = {}
    session: str | None = None
    """Only arrivals in transactions of this session count."""
    nth: Whole = 1
    """Number of the arrival, from 1."""
    gid: str | None = None
    """Only arrivals of this global transaction count."""


class Fault(Part):
    """A failure injected at a named protocol point."""

    what = "a fault"
    blank = {"id": "", "at": "", "do": ""}
    id: Name
    """Name by which an order arms the fault."""
    at: str
    """Protocol point: ``coordinator.decision_logged``, ``coordinator.before_commit(pub)`` …"""
    when: ArrivalSelection = ArrivalSelection()
    do: str
    """Action of the fault: ``crash coordinator``, ``kill backend pub``, ``cut pub-sub1`` …"""
    heal: str = "at end"
    """When the effect ends: ``after 1s``, ``at <point>``, ``at end`` or ``never``."""
