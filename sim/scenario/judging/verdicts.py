"""Results of judging: failed checks, and the verdict on an order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from twopc.sim.scenario.text import Path

#: Kinds of failures, the worst first.
FAILURE_KINDS = ("safety", "liveness", "threshold", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCheck:
    """An expectation that was not fulfilled."""

    path: Path
    """Place of the expectation in the file."""
    message: str
    kind: str = "safety"
    """One of `FAILURE_KINDS`. "threshold": a load is out of its bounds; "unknown": a transaction is in doubt, so
    that the check has no result.
    """
    check: str = ""
    """Name of the failed check, as in a twin's `must_fail`: an invariant's name, ``steps.<step>``,
    ``sessions.<session>``, ``tables.<table>``, ``committed``, ``rejected.<kind>``; also ``ends`` (a step hangs),
    ``waits`` (an order's own `wait`) and ``twin``.
    """
    actual: Any = None
    """Value for `path` that accepts the actual result, as values of YAML; None if no value can."""
    expected_text: str = ""
    actual_text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderVerdict:
    """Verdict on one case."""

    name: str
    failures: tuple[FailedCheck, ...]
    elapsed_us: int
    """Time from the first record of a session to the last, in microseconds; setup is not included."""
    notes: tuple[str, ...] = ()
    """Waits and refusals."""
    group: str = ""
    twin: bool = False
    behaviour: str = ""
    """Fingerprint of the behaviour, see `twopc.sim.report.behaviour.fingerprint`; empty if infeasible."""
    failed: frozenset[str] = frozenset()
    """Checks that failed in a twin, whether or not they were expected to fail."""

    @property
    def kind(self) -> str:
        """The worst kind of failure; empty if the case passed."""
        return worst(self.failures)


def worst(failures: Iterable[FailedCheck]) -> str:
    """Return the worst kind of several failures; empty if there are none."""
    kinds = {failure.kind for failure in failures}
    return next((kind for kind in FAILURE_KINDS if kind in kinds), "")
