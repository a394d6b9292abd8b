"""Faults, as a file describes them: where in the protocol, on which occasion, what happens, until when.

Shapes only, as in `twopc.sim.scenario.model`; nothing here makes anything fail.
"""

# ruff: noqa: RUF012 -- pydantic copies the defaults of fields, and the other mappings are constants

from __future__ import annotations

from twopc.sim.scenario.parts import Name, Part, Whole


class ArrivalSelection(Part):
    """On which of the arrivals at its point a fault happens."""

    what = "an occasion"
    blank = {}
    session: str | None = None
    """Only arrivals of this session's transactions."""
    nth: Whole = 1
    """Which of them, from 1."""
    gid: str | None = None
    """Only arrivals of this global transaction."""


class Fault(Part):
    """Something that goes wrong at a named point of the protocol."""

    what = "a fault"
    blank = {"id": "", "at": "", "do": ""}
    id: Name
    """By which an order arms it."""
    at: str
    """The point: ``coordinator.decision_logged``, ``coordinator.before_commit(pub)`` …"""
    when: ArrivalSelection = ArrivalSelection()
    do: str
    """``crash coordinator``, ``kill backend pub``, ``cut pub-sub1`` …"""
    heal: str = "at end"
    """``after 1s``, ``at <point>``, ``at end`` or ``never``."""
