"""What judging says: what is wrong with a played case, and what that makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twopc.sim.scenario.values import Path

#: What can be wrong with an order, the worst first.
FAILURE_KINDS = ("safety", "liveness", "threshold", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCheck:
    """Something that was expected and is not so."""

    path: Path
    """Where in the file it was expected."""
    message: str
    kind: str = "safety"
    """One of `FAILURE_KINDS`; "threshold": a load is out of its bounds; "unknown": something is in doubt,
    so nobody can tell."""
    check: str = ""
    """What failed, by the name that a twin's `must_fail` uses: an invariant's name, ``steps.<step>``,
    ``sessions.<session>``, ``tables.<table>``, ``committed``, ``rejected.<kind>``; besides those ``ends``
    (something hangs), ``waits`` (an order's own `wait`) and ``twin``."""
    actual: Any = None
    """What stands at `path` if what happened is taken for right, as values of YAML; None: nothing can."""
    expected_text: str = ""
    actual_text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderVerdict:
    """What became of one case."""

    name: str
    failures: tuple[FailedCheck, ...]
    elapsed_us: int
    """From its first step to its last; setting up is not counted."""
    notes: tuple[str, ...] = ()
    """What was remarkable about it: waits and refusals."""
    group: str = ""
    twin: bool = False
    behaviour: str = ""
    """`twopc.sim.report.behaviour.fingerprint`."""
    failed: frozenset[str] = frozenset()
    """Of a twin, the checks that failed, be it right that they did."""

    @property
    def kind(self) -> str:
        """The worst kind of failure; empty if it passed."""
        kinds = {failure.kind for failure in self.failures}
        return next((kind for kind in FAILURE_KINDS if kind in kinds), "")
