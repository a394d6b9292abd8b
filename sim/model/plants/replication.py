"""Bugs of immediate updating and of distribution: changes that are not compared, marked, or rolled back."""

from __future__ import annotations

from typing import Any

from twopc.sim.model.explore.results import Budget, PlantedBug
from twopc.sim.model.plants.protections import wiring_for
from twopc.sim.model.replication.behaviour import Condition
from twopc.sim.model.values import Values
from twopc.sim.model.wiring import ruled_by


def without(protection: str) -> Any:
    """Return a plant that switches a protection off as twins do."""
    return lambda wiring: wiring_for([protection], wiring)


def first_answer(condition: Condition) -> Condition:
    """Return a condition that keeps its first result, also after a wait."""
    lines: list[bool] = []

    def asked(row: Values) -> bool:
        if not lines:
            lines.append(condition(row))
        return lines[0]

    return asked


_NONE = Budget(faults=0, deviations=0)

PLANTS = (
    PlantedBug(
        name="version_check",
        why="a change that was made from an old copy overwrites a newer one",
        source="Microsoft, immediate updating subscriptions: the row version",
        plant=without("version_check"),
        program="lost update",
        budget=_NONE,
        breaks=("converged", "no_lost_update"),
    ),
    PlantedBug(
        name="waits_not_rechecked",
        why="whom one waits for may have changed the row",
        source="PostgreSQL's documentation of READ COMMITTED",
        plant=ruled_by(after_wait=first_answer),
        program="lost update",
        budget=_NONE,
        breaks=("converged", "no_lost_update"),
    ),
    PlantedBug(
        name="deletes_by_key",
        why="what is deleted may have become something else meanwhile",
        source="Microsoft, immediate updating subscriptions: deletes compare all columns",
        plant=ruled_by(delete_check=lambda held, sent: True),
        program="delete of what has changed",
        budget=_NONE,
        breaks=("no_lost_update",),
    ),
    PlantedBug(
        name="counts_row_not_checked",
        why="a statement of many rows is refused if one of them is stale",
        source="Microsoft, immediate updating subscriptions: all rows or none",
        plant=ruled_by(all_counted=lambda done, sent: True),
        program="one of two rows has changed",
        budget=_NONE,
        breaks=("no_lost_update",),
    ),
    PlantedBug(
        name="savepoint_mirror",
        why="what is rolled back at one end must be rolled back at the other",
        source="Microsoft, immediate updating subscriptions: savepoints are not supported",
        plant=without("savepoint_mirror"),
        program="back to a savepoint",
        budget=_NONE,
        breaks=("converged",),
    ),
    PlantedBug(
        name="marker",
        why="a change must not come back to where it was made",
        source="Microsoft, immediate updating subscriptions: loopback detection",
        plant=without("marker"),
        program="write and deliver",
        budget=_NONE,
        breaks=("echoed",),
    ),
    PlantedBug(
        name="not_for_replication",
        why="what an agent brings must not be sent to the Publisher again",
        source="Microsoft, NOT FOR REPLICATION",
        plant=without("not_for_replication"),
        program="write and deliver",
        budget=_NONE,
        breaks=("converged", "delivers"),
    ),
    PlantedBug(
        name="lost_write_back",
        why="who sent a row has to take over what was stored of it",
        source="Microsoft, immediate updating subscriptions: identity and computed columns",
        plant=ruled_by(write_back=lambda stored: ()),
        program="the Publisher stores otherwise",
        budget=_NONE,
        breaks=("converged",),
    ),
)
