"""Variants of a scenario in the explorer: switches, faults placed by hand, other orders.

This module turns values into a case; it plays nothing and reads no files.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from pydantic import ValidationError

from twopc.merge.protections import MergeProtection
from twopc.protocol.variants import VARIANTS
from twopc.sim.explore.bases import (
    BY_HAND,
    OrderBase,
    SwitchError,
    base_of,
    bases,
    new_name,
    of_steps,
)
from twopc.sim.explore.cards import OF_DISTRIBUTION
from twopc.sim.explore.wire.files import WireItem, WireSwitch
from twopc.sim.explore.wire.runs import PlayVariant, WireFault
from twopc.sim.faults.matrix import with_faults
from twopc.sim.model.plants.protections import SUPPORTED
from twopc.sim.scenario.check import LoadedScenario
from twopc.sim.scenario.expectations import Expect
from twopc.sim.scenario.faults import ArrivalSelection, Fault
from twopc.sim.scenario.meaning import check_meaning
from twopc.sim.scenario.meanings import PROTECTIONS
from twopc.sim.scenario.model import Order, OrderItem, Scenario
from twopc.sim.scenario.order_generation import Generate
from twopc.sim.scenario.orders import check_order
from twopc.sim.scenario.parts import EVERY_NODE
from twopc.sim.scenario.text import Document, Mark
from twopc.sim.scenario.twins import Twin
from twopc.sim.scenario.values import Case, Cell

#: Name of the order that stands for all.
EVERY = "every order of the steps"
#: Beginning of the name of a switch for a protection.
PROTECTION = "protection."
_ON, _OFF = "on", "off"
_LEVELS = ("read committed", "repeatable read", "serializable")
#: Value of a choice whose actual values differ between orders or nodes.
AS_IN_FILE = "as in the file"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ChosenCase:
    """A case, and the place at which its order is not possible by itself."""

    case: Case
    cell: Cell
    """Cell of the file's matrix, whatever is switched."""
    listed: str = ""
    """Name of the file's order; empty: the file does not list it."""
    is_changed: bool = False
    """Whether a switch or a fault is set, so that the order's own expectations do not apply."""
    stops_at: int | None = None
    """The first entry that violates the sequence of a session's steps; None: there is none."""
    reason: str = ""


# -- what there is -----------------------------------------------------------------------------------


def switches(loaded: LoadedScenario, base: OrderBase) -> list[WireSwitch]:
    """Return the switches of a scenario, each with its value in an unchanged order."""
    return [
        *_isolation(loaded, base),
        *_of_protocol(base.scenario),
        *_of_protections(base.scenario),
    ]


def _isolation(loaded: LoadedScenario, base: OrderBase) -> Iterator[WireSwitch]:
    is_mixed = any(_level(each) == AS_IN_FILE for each in (base, *bases(loaded)))
    yield _choice(
        "isolation", "Isolation level", [*([AS_IN_FILE] if is_mixed else []), *_LEVELS],
        _level(base), "of every session, and of its branch at the Publisher; it holds at each node by itself",
    )  # fmt: skip


def _level(base: OrderBase) -> str:
    """Return the isolation level of all sessions; `AS_IN_FILE` if they differ."""
    levels = {*base.levels.values()}
    return next(iter(levels)) if len(levels) == 1 else AS_IN_FILE


def _of_protocol(scenario: Scenario) -> Iterator[WireSwitch]:
    topology = scenario.topology
    if scenario.merges:
        return
    yield _choice(
        "commit", "Commit protocol", [*VARIANTS], topology.commit,
        "which outcome is assumed where the decision log says nothing, and who decides",
    )  # fmt: skip
    yield _choice(
        "shipping", "Shipping", ("eager", "lazy"), topology.shipping,
        "whether changes go to the Publisher at each statement, or at commit",
    )  # fmt: skip
    if any(_may_be_any_client(scenario, each) for each in scenario.sessions):
        is_on = all(
            session.any_client
            for name, session in scenario.sessions.items()
            if _may_be_any_client(scenario, name)
        )
        yield _on_off(
            "any_client", "Any client", is_on,
            "sessions at Subscribers commit by themselves, without a coordinator",
        )  # fmt: skip
    yield _on_off(
        "agents", "Agents", scenario.distributes,
        "what is committed at the Publisher reaches the other Subscribers",
    )  # fmt: skip


def _of_protections(scenario: Scenario) -> Iterator[WireSwitch]:
    names = [*MergeProtection] if scenario.merges else sorted(SUPPORTED)
    first = [name for twin in scenario.twins for name in sorted(twin.off)]
    if not scenario.procedures:
        of_calls = {"snapshot_rule", "isolation_check", "xact_abort", "calls"}
        names = [name for name in names if name not in of_calls]
    for name in dict.fromkeys((*(each for each in first if each in names), *map(str, names))):
        label = str(name).replace("_", " ")
        meaning = PROTECTIONS[name]
        about = f"{meaning.ensures}. Without it: {meaning.without}."
        switch = _on_off(f"{PROTECTION}{name}", label, True, f"{about[:1].upper()}{about[1:]}")
        yield {**switch, "of_twin": name in first}


def _choice(name: str, label: str, values: Sequence[str], value: str, about: str) -> WireSwitch:
    return {
        "name": name, "label": label, "kind": "choice", "values": [*values], "value": value,
        "about": about, "of_twin": False,
    }  # fmt: skip


def _on_off(name: str, label: str, is_on: bool, about: str) -> WireSwitch:
    switch = _choice(name, label, (_ON, _OFF), _ON if is_on else _OFF, about)
    return {**switch, "kind": "on_off"}


def _may_be_any_client(scenario: Scenario, name: str) -> bool:
    session = scenario.sessions[name]
    is_at_publisher = session.node == scenario.topology.publisher
    return not (
        session.plain or session.also or is_at_publisher or scenario.only_reads(session.node)
    )


# -- a case ------------------------------------------------------------------------------------------


def chosen(loaded: LoadedScenario, variant: PlayVariant) -> ChosenCase:
    """Return the case of an order with the given switches and faults.

    An order that the file lists keeps its expectations, unless a switch or a fault changes it. Any other order is
    treated as one of many: a step of a blocked session makes it impossible.

    Raises:
        SwitchError: a value is not possible; the message lists the possible ones.
    """
    items = _items(variant["order"])
    base = of_steps(loaded, base_of(loaded, variant.get("listed") or ""), items)
    switched, faults = variant.get("switches") or {}, variant.get("faults") or ()
    case = _case(loaded, base, switched, faults)
    stops_at, reason = _sequence(case.scenario, case.order)
    case = dataclasses.replace(case, items=tuple(items[:stops_at]))
    name = "" if base.place is None else base.name
    return ChosenCase(
        case=case,
        listed=name,
        is_changed=bool(faults or _changed(loaded, base, switched)),
        cell=base.cell,
        stops_at=stops_at,
        reason=reason,
    )


def every(loaded: LoadedScenario, generate: Generate, request: Mapping[str, Any]) -> Case:
    """Return a case that stands for every order. Raises as `chosen`."""
    for name in generate.sessions:
        if name not in loaded.scenario.sessions:
            raise SwitchError(f"there is no session '{name}'")
    base = base_of(loaded, request.get("listed") or "")
    made = Order(
        name=new_name(loaded, EVERY),
        generate=generate,
        faults=base.order.faults,
        isolation=base.order.isolation,
    )
    base = dataclasses.replace(base, name=made.name, order=made, place=None)
    return _case(loaded, base, request.get("switches") or {}, request.get("faults") or ())


def _case(
    loaded: LoadedScenario,
    base: OrderBase,
    switched: Mapping[str, str],
    faults: Sequence[WireFault],
) -> Case:
    changed = _changed(loaded, base, switched)
    scenario, made = _switched(loaded, base.scenario, changed), base.order
    place = len(scenario.orders) if base.place is None else base.place
    if "isolation" in changed:
        made = made.model_copy(update={"isolation": {}})
    if changed or faults:  # the file's expectations apply to the unchanged order only
        made = made.model_copy(update={"expect": Expect()})
    orders = (*scenario.orders[:place], made, *scenario.orders[place + 1 :])
    off = {name.removeprefix(PROTECTION): "off" for name in changed if name.startswith(PROTECTION)}
    is_listed = base.place is not None and loaded.scenario.orders[base.place].generate is None
    case = Case(
        name=base.name,
        group=base.name,
        scenario=_copied(scenario, {"orders": orders}),
        order=made,
        at=("orders", place),
        items=(),
        cell=Cell() if changed else base.cell,
        number=0 if is_listed else 1,
        twin=Twin.model_construct(protections=off, must_fail="") if off else None,
    )
    return _struck(loaded, case, faults)


def _changed(
    loaded: LoadedScenario, base: OrderBase, switched: Mapping[str, str]
) -> dict[str, str]:
    """Return the switches that differ from the order's own values.

    Raises:
        SwitchError: there is no such switch, or no such value.
    """
    known = {each["name"]: each for each in switches(loaded, base)}
    for name, value in switched.items():
        if name not in known:
            raise SwitchError(f"there is no switch '{name}'; there is {', '.join(known)}")
        if value not in known[name]["values"]:
            values = ", ".join(known[name]["values"])
            raise SwitchError(f"{name} is one of {values}, not '{value}'")
    return {
        name: value
        for name, value in switched.items()
        if value not in (known[name]["value"], AS_IN_FILE)
    }


def _items(order: Sequence[WireItem]) -> list[OrderItem]:
    results = []
    for each in order:
        try:
            results.append(
                OrderItem(step=each) if isinstance(each, str) else OrderItem.model_validate(each)
            )
        except ValidationError as error:
            raise SwitchError(
                f"{each!r} is no entry of an order: {error.errors()[0]['msg']}"
            ) from error
    return results


def _switched(loaded: LoadedScenario, scenario: Scenario, changed: Mapping[str, str]) -> Scenario:
    """Return the scenario of a cell with changed switches."""
    topology: dict[str, Any] = {}
    update: dict[str, Any] = {}
    for name, value in changed.items():
        if name == "isolation" and value in _LEVELS:
            topology["isolation"] = {EVERY_NODE: value}
        elif name in ("commit", "shipping"):
            topology[name] = value
        elif name == "agents":
            topology["distribution"] = "on request" if value == _ON else "none"
            expect = dict.fromkeys(OF_DISTRIBUTION)
            update["expect"] = scenario.expect.model_copy(update=expect)
        elif name == "any_client":
            way = "any client" if value == _ON else "coordinated"
            update["sessions"] = {
                each: session.model_copy(update={"way": way})
                if _may_be_any_client(scenario, each)
                else session
                for each, session in scenario.sessions.items()
            }
    if topology:
        update["topology"] = scenario.topology.model_copy(update=topology)
    if not update:
        return scenario
    made = _copied(
        scenario, {**update, "orders": ()}
    )  # the file's orders may not be possible with the switches
    _check(loaded, made, ", ".join(f"{name} {value}" for name, value in changed.items()))
    return made


def _copied(scenario: Scenario, update: Mapping[str, Any]) -> Scenario:
    """Return a copy whose computed properties are computed again."""
    copy = scenario.model_copy(update=dict(update))
    for name in ("steps", "repeated"):
        copy.__dict__.pop(name, None)
    return copy


def _check(loaded: LoadedScenario, scenario: Scenario, what: str) -> None:
    """Raise `SwitchError` if the scenario is not possible."""
    examined = dataclasses.replace(loaded.document, problems=[])
    first = Order(name=BY_HAND, steps=(OrderItem(step=next(iter(scenario.steps))),))
    orders = scenario.orders or (first,)
    check_meaning(examined, _copied(scenario, {"twins": (), "orders": orders}))
    known = {each.message for each in loaded.document.problems}
    wrong = [each.message for each in examined.errors if each.message not in known]
    if wrong:
        raise SwitchError(f"not with {what}: {wrong[0]}")


def _struck(loaded: LoadedScenario, case: Case, faults: Sequence[WireFault]) -> Case:
    """Return the case with faults; raise `SwitchError` if a point or an action is not possible."""
    if not faults:
        return case
    try:
        made = tuple(
            Fault(
                id=name,
                at=each["at"],
                when=ArrivalSelection(nth=each.get("nth") or 1, session=each.get("session")),
                do=each["do"],
                heal="at end",
            )
            for name, each in zip(placed_names(case.scenario), faults, strict=False)
        )
    except (ValidationError, KeyError, TypeError, AttributeError) as error:
        raise SwitchError(
            f"a fault has 'at' and 'do', and may have 'nth' and 'session': {error}"
        ) from error
    struck = with_faults(case, made)
    scenario = _copied(struck.scenario, {})
    _check(loaded, scenario, " and ".join(f"{each['do']} at {each['at']}" for each in faults))
    return dataclasses.replace(struck, scenario=scenario)


def placed_names(scenario: Scenario) -> Iterator[str]:
    """Yield names for faults placed by hand that differ from those of the file's faults."""
    known = {each.id for each in scenario.faults}
    return (name for number in count(1) if (name := f"placed_{number}") not in known)


class _ItemDocument(Document):
    """Document for an order that is in no file, to collect its problems: a line is an entry, from 1."""

    def mark(self, path: Iterable[str | int], *, key: bool = False) -> Mark:
        """Return the place of the entry to which a path leads."""
        places = [part for part in path if isinstance(part, int)]
        return Mark((places or [0])[0] + 1, 1)


def _sequence(scenario: Scenario, order: Order) -> tuple[int | None, str]:
    """Return the first entry that is not possible at its place, and the reason.

    Raises:
        SwitchError: the scenario has no such step.
    """
    for item in order.steps:
        if item.step is not None and item.step not in scenario.steps:
            raise SwitchError(f"the scenario has no step '{item.step}'")
    examined = _ItemDocument(path="", lines=[])
    check_order(examined, scenario, (), order)
    for place, message in _unsaved(scenario, order.steps):
        examined.error(Mark(place + 1, 1), message)
    problems = sorted(examined.errors, key=lambda each: each.mark)
    if not problems:
        return None, ""
    message = problems[0].message.removeprefix(f"order '{order.name}': ")
    return problems[0].mark.line - 1, message


def _unsaved(scenario: Scenario, items: Sequence[OrderItem]) -> Iterator[tuple[int, str]]:
    """Yield the steps that use a value which no earlier step of the session has saved yet."""
    played: set[str] = set()
    for place, item in enumerate(items):
        if item.step is None:
            continue
        session, step = scenario.steps[item.step]
        text = " ".join(step.statements)
        for name, other in scenario.sessions[session].named_steps:
            used = [each for each in other.save if re.search(rf"(?<!:):{each}\b", text)]
            if name == item.step:
                break
            if used and name not in played and used[0] not in step.values:
                yield place, f"'{item.step}' uses :{used[0]}, which '{name}' has not saved yet"
        played.add(item.step)
