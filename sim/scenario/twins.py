"""Twins: orders that must fail in a named check when a protection is switched off."""

# ruff: noqa: RUF012 -- pydantic copies the defaults of fields, and the other mappings are constants

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from twopc.sim.scenario.expectations import Expect
from twopc.sim.scenario.parts import Part, WrittenForm, refuse, said_of

Protection = Literal[
    "version_check",
    "marker",
    "savepoint_mirror",
    "fence",
    "command_tag",
    "decision_before_finish",
    "not_for_replication",
    "one_subscription",
    "epoch",
    "vote_heard",
    "every_vote",
    "decision_kept",
    "missing_looked_up",
    "sites_asked",
    "snapshot_rule",
    "isolation_check",
    "xact_abort",
    "calls",
    "deferral",
    "lineage",
    "generation_snapshot",
    "column_versions",
    "priority",
    "resolver",
    "compensation",
    "losers",
    "key_checks",
    "guid_check",
    "schema",
    "past_mappings",
    "past_touched",
    "children_follow",
    "file_commit",
    "snapshot_generation",
    "identity_ranges",
]


def _off(value: Any) -> Any:
    if value in ("off", False):
        return "off"
    raise refuse(f"a protection of a twin is 'off', not {said_of(value)}")


_OFF = WrittenForm(schema={"enum": ["off", False]})


class Twin(Part):
    """An order without a protection, in which exactly one check must fail."""

    what = "a twin"
    blank = {"protections": {}, "must_fail": ""}
    order: str = ""
    """Name of the order. Empty: the first one."""
    protections: dict[Protection, Annotated[Literal["off"], BeforeValidator(_off), _OFF]]
    """Protections that are switched off."""
    must_fail: str
    """Name of the check that must fail: an invariant, or ``steps.<step>``, ``sessions.<session>``,
    ``tables.<table>``, ``committed``, ``conflicts``, ``rejected.<kind>``.
    """
    about: str = ""
    """What the twin demonstrates."""
    expect: Expect = Expect()
    """Expectations that are judged besides invariants. `false` excludes an invariant."""

    @property
    def off(self) -> frozenset[str]:
        """Names of the protections that are switched off."""
        return frozenset(self.protections)
