"""Refusal of scenarios that need capabilities a theatre lacks, by name and place, before they are played."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from twopc.sim.scenario.check import LoadedScenario
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.text import Path
from twopc.sim.scenario.values import Capabilities, NotPlayableError


def refuse(loaded: LoadedScenario, possible: Capabilities) -> None:
    """Refuse a scenario that the theatre cannot play. Twins that it cannot play are skipped instead.

    Raises:
        NotPlayableError: names every part that cannot be played, with its place.
    """
    results = list(_unsupported(loaded.scenario, possible))
    if not results:
        return
    document = dataclasses.replace(loaded.document, problems=[])
    for path, message in results:
        by_key = path[-1] == "isolation"  # the presence of the key is the error
        document.error(path, message, key=by_key)
    raise NotPlayableError(results[0][0], document.report(severity="error"))


def _unsupported(scenario: Scenario, possible: Capabilities) -> Iterator[tuple[Path, str]]:
    where = "real servers" if possible.name == "postgres" else f"stage '{possible.name}'"
    yield from _faults(scenario, possible, where)
    for path, expect in scenario.expectations():
        if expect.isolation_claim is not None:
            yield (
                (*path, "isolation"),
                "a history's isolation is judged by an external checker, and there is none here",
            )
    for name in scenario.topology.settings:
        if possible.settings is not None and name not in possible.settings:
            yield ("topology", "settings", name), f"there is no setting '{name}' on {where}"


def _faults(scenario: Scenario, possible: Capabilities, where: str) -> Iterator[tuple[Path, str]]:
    """Yield the faults that are not supported, at each place that arms them and at their definition."""
    missing = set()
    for place, fault in enumerate(scenario.faults):
        deed = fault.do.partition(" ")[0]
        at = ("faults", place)
        point = fault.at.partition("(")[0]
        if deed not in possible.faults_at:
            missing.add(fault.id)
            why = f": {possible.reasons[deed]}" if deed in possible.reasons else ""
            yield (*at, "do"), f"fault '{fault.id}': '{deed}' is not performed on {where}{why}"
        elif point not in possible.points and fault.at not in possible.points:
            missing.add(fault.id)
            yield (*at, "at"), f"fault '{fault.id}': {where} have no point '{fault.at}'"
        elif point not in possible.faults_at[deed]:
            missing.add(fault.id)
            there = ", ".join(sorted(possible.faults_at[deed]))
            text = f"'{deed}' is not performed at '{point}' on {where}, but at {there}"
            yield (*at, "do"), f"fault '{fault.id}': {text}"
    for place, order in enumerate(scenario.orders):
        for number, item in enumerate(order.steps):
            if item.fault in missing:
                path: Path = ("orders", place, "steps", number, "fault")
                yield path, f"fault '{item.fault}' is not performed on {where}"
        for number, name in enumerate(order.faults):
            if name in missing:
                path = ("orders", place, "faults", number)
                yield path, f"fault '{name}' is not performed on {where}"
