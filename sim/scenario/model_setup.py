"""Derivation of a model's specification from a scenario: topology, tables, Subscribers, and timing.

This module must not depend on how a case is played.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from types import MappingProxyType

from twopc.sim.model.values import (
    PREPARED_MAX,
    Delay,
    ModelSpec,
    ModelTiming,
    ProcedureSpec,
    SubscriberSpec,
    TableSpec,
)
from twopc.sim.scenario import workload
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.stage import MARKERS_KEPT_S, SetUpError
from twopc.sim.scenario.values import Case

#: Settings of PostgreSQL that the model supports.
SETTINGS = frozenset({"max_prepared_transactions", "deadlock_timeout"})
#: Names of durations, other than links.
TIMED = frozenset(each.name for each in dataclasses.fields(ModelTiming)) - {"links"}
#: Name of any Subscriber in the name of a link.
ANY_SUBSCRIBER = "sub"
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0}
#: PostgreSQL's notation; without a unit, in milliseconds.
_DEADLOCK_TIMEOUT = re.compile(r"(\d+)\s*(ms|s|min)?")
_PG_UNITS_S = {None: 0.001, "ms": 0.001, "s": 1.0, "min": 60.0}


def spec_of(
    scenario: Scenario | Case, *, seed: int | None = None, one_server: bool = True
) -> ModelSpec:
    """Return the specification of a scenario's model.

    Args:
        scenario: the scenario, or a case with its cell's values and its seed.
        seed: seed of all random values; None: that of the case, or of the scenario.
        one_server: whether the nodes are databases of one server, as is the default on real servers.

    Raises:
        SetUpError: a duration or a setting does not exist in the model; with its place.
    """
    own = None
    if isinstance(scenario, Case):
        own, scenario = scenario.seed or None, scenario.scenario
    topology = scenario.topology
    drawn = next((each for each in (seed, own, scenario.seed) if each is not None), 0)
    return ModelSpec(
        publisher=topology.publisher,
        subscribers=tuple(_subscriber(scenario, name) for name in topology.subscribers),
        tables=tuple(_table(scenario, name) for name in scenario.tables),
        procedures=tuple(_procedure(scenario, name) for name in scenario.procedures),
        shipping=topology.shipping,
        commit=topology.commit,
        distributes=scenario.distributes,
        lock_timeout_s=topology.timeouts.lock_ms / 1000,
        timing=_timing(scenario),
        seed=drawn,
        setup=scenario.setup,
        one_server=one_server,
        prepared_max=_prepared_max(scenario),
        markers_kept_s=MARKERS_KEPT_S,
    )


def _table(scenario: Scenario, name: str) -> TableSpec:
    table = scenario.tables[name]
    return TableSpec(
        name=name,
        columns=MappingProxyType(dict(table.columns)),
        key=table.key,
        sql=table.sql,
        rows=tuple(
            MappingProxyType(
                {one: None if value is None else str(value) for one, value in row.items()}
            )
            for row in table.rows
        ),
        published=table.published,
        filter=table.filter or "",
        propagate=MappingProxyType(dict(table.propagate.given)),
        procedures=table.procedures,
    )


def _procedure(scenario: Scenario, name: str) -> ProcedureSpec:
    text = scenario.procedures[name]
    return ProcedureSpec(
        name=name,
        body=text.body,
        type=text.type,
        reads=text.reads,
        writes=text.writes,
        xact_abort=text.xact_abort == "on",
        at_subscribers=text.at_subscribers,
    )


def _subscriber(scenario: Scenario, name: str) -> SubscriberSpec:
    text = scenario.subscriber(name)
    return SubscriberSpec(
        name=name,
        joins_later=text.joins == "later",
        sync=text.sync,
        update=text.update,
        any_client=scenario.lets_any_client(name),
        streams=text.streams,
        batch=text.batch,
        skip_errors=text.skip_errors,
        filters=MappingProxyType(dict(text.filter)),
        sql=text.sql,
    )


def _prepared_max(scenario: Scenario) -> int:
    """Return the maximum number of prepared transactions of a server.

    Raises:
        SetUpError: a setting is not supported by the model, or is not a number.
    """
    result = PREPARED_MAX
    for name, text in scenario.topology.settings.items():
        at = ("topology", "settings", name)
        if name not in SETTINGS:
            known = " and ".join(sorted(SETTINGS))
            raise SetUpError(at, f"the model has no setting '{name}', only {known}")
        if name == "max_prepared_transactions":
            if not text.isdecimal():
                raise SetUpError(at, f"'{name}' is a whole number, not '{text}'")
            result = int(text)
    return result


def _timing(scenario: Scenario) -> ModelTiming:
    topology = scenario.topology
    given: dict[str, Delay] = {}
    links: dict[str, Delay] = {}
    for name, timing in scenario.timing.items():
        delay = delay_of(timing)
        if name in TIMED:
            given[name] = delay
            continue
        for link in _links(scenario, name):
            links.setdefault(link, delay)
    text = topology.settings.get("deadlock_timeout")
    if text is not None:
        match = _DEADLOCK_TIMEOUT.fullmatch(text)
        if match is None:
            raise SetUpError(
                ("topology", "settings", "deadlock_timeout"),
                f"a duration is written as 500, 500ms or 1s, not '{text}'",
            )
        given["deadlock_timeout"] = Delay(a=int(match[1]) * _PG_UNITS_S[match[2]])
    return ModelTiming(links=MappingProxyType(links), **given)


def _links(scenario: Scenario, name: str) -> list[str]:
    """Return the links that a name denotes: of two nodes, in either order; ``sub-pub``: those of every Subscriber."""
    nodes = scenario.topology.nodes
    words: Mapping[str, tuple[str, ...]] = {node: (node,) for node in nodes}
    words = {
        ANY_SUBSCRIBER: scenario.topology.subscribers,
        "pub": (scenario.topology.publisher,),
        **words,
    }
    for at in (result.start() for result in re.finditer("-", name)):
        ends = words.get(name[:at]), words.get(name[at + 1 :])
        if ends[0] and ends[1]:
            return [f"{one}-{other}" for one in ends[0] for other in ends[1] if one != other]
    raise SetUpError(
        ("timing", name),
        f"nothing that takes time is called '{name}'; there is {', '.join(sorted(TIMED))}, and links of two "
        "nodes, as sub1-pub",
    )


def delay_of(timing: workload.Timing) -> Delay:
    """Return a timing as a distribution in seconds."""
    values = timing.values
    if timing.distribution == "constant":
        return Delay(a=_seconds(values[0]))
    if timing.distribution == "exponential":
        return Delay(kind="exponential", a=_seconds(values[0]))
    if timing.distribution == "lognormal":
        return Delay(kind="lognormal", a=_seconds(values[0]), b=float(values[1]))
    return Delay(kind="uniform", a=_seconds(values[0]), b=_seconds(values[1]))


def _seconds(text: str) -> float:
    """Return the seconds of ``0.2ms``, ``1s`` or ``2m``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m)", text)
    assert match is not None, text  # the model of the file checks it
    return float(match[1]) * _UNITS_S[match[2]]
