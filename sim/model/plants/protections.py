"""Protections that twins of scenarios switch off in a model, by the same names as on real servers.

Each is a change of wiring; the product's code does not refer to them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any

from twopc.errors import ConfigurationError
from twopc.proc_execution import gate_verdict
from twopc.sim.model.plants import coordinator, log, recovery
from twopc.sim.model.wiring import Plant, Wiring, replacing

#: More than any transaction id.
_ALL = 2**62
#: Replaced rules, with their replacements, by name of the protection.
_RULES: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "version_check": {
        "version_check": lambda held, sent: True,
        "delete_check": lambda held, sent: True,
    },
    "marker": {"marker": lambda role: None},
    "savepoint_mirror": {"savepoint_mirror": lambda sent: ()},
    "not_for_replication": {"capture_fires": lambda: "always"},
    "snapshot_rule": {"call_snapshot": lambda tx: f"{_ALL}:{_ALL}:"},
    "isolation_check": {
        "call_gate": lambda facts: gate_verdict(
            dataclasses.replace(facts, isolation="serializable")
        )
    },
    "xact_abort": {"call_aborts": lambda article: False},
    "calls": {"call_gate": lambda facts: "nobody"},
}
#: Plants that replace a class of the protocol, by name of the protection.
_CLASSES: Mapping[str, Plant] = {
    "fence": replacing(site=recovery.AsksWithoutFence),
    "command_tag": coordinator.ignores_tag,
    "decision_before_finish": replacing(driver=coordinator.FinishesFirst),
    "epoch": log.kept_by(log.UnfencedSession),
    "vote_heard": replacing(driver=coordinator.TakesLostForYes),
    "every_vote": coordinator.decided_by(coordinator.Outvotes),
    "decision_kept": replacing(driver=coordinator.ForgetsEarly),
    "missing_looked_up": replacing(site=recovery.TakesMissing),
    "sites_asked": replacing(recovery=recovery.PresumesForAgent),
}
#: Protections that can be switched off.
SUPPORTED = frozenset((*_RULES, *_CLASSES))


def wiring_for(names: Collection[str], wiring: Wiring | None = None) -> Wiring:
    """Return a wiring in which these protections are switched off.

    Raises:
        ConfigurationError: a protection is unknown here.
    """
    wiring = wiring or Wiring()
    for name in sorted(names):
        if name not in SUPPORTED:
            known = ", ".join(sorted(SUPPORTED))
            raise ConfigurationError(
                f"protection {name!r} cannot be switched off; those that can are {known}"
            )
        if name in _CLASSES:
            wiring = _CLASSES[name](wiring)
        parts = {**wiring.parts, **_RULES.get(name, {})}
        wiring = dataclasses.replace(wiring, parts=parts, names=(*wiring.names, name))
    return wiring
