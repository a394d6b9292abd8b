"""Checks of twins: whether each names an existing order, and a check that is judged and can fail.

Part of `twopc.sim.scenario.meaning`; records problems in the `Document` and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Collection

from twopc.errors import KINDS
from twopc.sim.scenario.expect_meaning import check_expect
from twopc.sim.scenario.expectations import ASKED_FOR, DEFAULTS, NOT_JUDGED, Expect, no_kind
from twopc.sim.scenario.model import Order, Scenario
from twopc.sim.scenario.text import Document, Path, suggestion
from twopc.sim.scenario.twins import Twin


def check_twins(document: Document, scenario: Scenario) -> None:
    """Record the errors of the twins."""
    for place, twin in enumerate(scenario.twins):
        at: Path = ("twin", place)
        if twin.hole:
            continue
        order = _order(document, scenario, at, twin)
        if not twin.protections:
            document.error(
                (*at, "protections"),
                "a twin switches a protection off: {version_check: off}",
                key=True,
            )
        readable = (
            order is not None and not order.hole and not any(i.hole or i.holes for i in order.steps)
        )
        known = order if readable else None
        check_expect(document, scenario, (*at, "expect"), twin.expect, known)
        text = _unjudged(scenario, twin, order)
        if text:
            document.error((*at, "must_fail"), text)


def _order(document: Document, scenario: Scenario, at: Path, twin: Twin) -> Order | None:
    if not twin.order:
        return scenario.orders[0] if scenario.orders else None
    for order in scenario.orders:
        if order.name == twin.order:
            return order
    if not any(order.hole for order in scenario.orders):
        document.unknown(
            (*at, "order"), "order", twin.order, [order.name for order in scenario.orders]
        )
    return None


def _unjudged(scenario: Scenario, twin: Twin, order: Order | None) -> str:
    """Return the reason why the check that must fail cannot fail; empty if it can."""
    check = twin.must_fail
    head, _, name = check.partition(".")
    if check in DEFAULTS or check in ASKED_FOR:
        return _not_asked_for(scenario, twin, order)
    owners: dict[str, tuple[str, Collection[str], Collection[str]]] = {
        "steps": ("step", scenario.steps, twin.expect.steps),
        "sessions": ("session", scenario.sessions, twin.expect.sessions),
        "tables": ("table", scenario.tables, twin.expect.tables),
    }
    if check == "conflicts":
        is_expected = twin.expect.conflicts is not None
    elif check == "committed":
        is_expected = twin.expect.committed is not None
    elif head == "rejected" and name:
        if name not in KINDS:
            return no_kind(name)
        is_expected = name in twin.expect.rejected
    elif head in owners and name:
        what, known, expected = owners[head]
        if name not in known:
            return f"no {what} '{name}'{suggestion(name, known)}"
        is_expected = name in expected
    else:
        checks = (*DEFAULTS, *ASKED_FOR, "committed", "conflicts", "rejected", *owners)
        near = suggestion(check, checks) if "." not in check else ""
        return f"no check is called '{check}'{near or _CHECKS}"
    if is_expected:
        return ""
    return f"nothing looks at '{check}': of a twin only invariants and its own 'expect' are judged"


#: Checks that apply only if changes are distributed.
_OF_DISTRIBUTION = ("converged", "echoed", "each_change_applied_once", "commands", "diverged")
#: Checks of each kind of replication.
_OF_MERGE = ("converged", "nothing_lost", "sum", "sql")
_OF_UPDATING = tuple(each for each in (*DEFAULTS, *ASKED_FOR) if each != "nothing_lost")
#: Checks that exist only with an expectation in the file.
_SAID = ("sum", "sql", "commands", "diverged")
_CHECKS = (
    f"; there are {', '.join((*DEFAULTS, *ASKED_FOR))}, committed, conflicts, rejected.<kind>, steps.<step>, "
    "sessions.<session> and tables.<table>"
)


def _not_asked_for(scenario: Scenario, twin: Twin, order: Order | None) -> str:
    check = twin.must_fail
    if check not in (_OF_MERGE if scenario.merges else _OF_UPDATING):
        kind = "updating" if scenario.merges else "merge"
        return f"nothing looks at '{check}': it goes with 'replication: {kind}'"
    if check in _OF_DISTRIBUTION and not scenario.distributes:
        return "nothing can be delivered: 'distribution' is none"
    lines = [twin.expect, *([order.expect] if order is not None else []), scenario.expect]
    requested = next(
        (value for each in lines if (value := _is_checked(each, check)) is not None), None
    )
    if requested is False:
        return f"'{check}' must fail and is not judged: it is taken out by 'expect'"
    if requested is None and check in _SAID:
        return f"nothing looks at '{check}': ask for it under 'expect'"
    return ""


def _is_checked(expect: Expect, check: str) -> bool | None:
    """Return whether `expect` requests a check (True), excludes it (False), or does not mention it (None)."""
    value = getattr(expect, check)
    if value is None or value in ((), {}):
        return None
    return value is not False and value != NOT_JUDGED
