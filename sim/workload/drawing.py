"""Random choices of a load: transactions, values, nodes, and pauses.

Every random source is seeded with the run's seed and a name, so that a load can be repeated.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from twopc.sim.scenario import sqltext
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.workload import Timing, Workload
from twopc.sim.workload.keys import Picker, Uniform, picker
from twopc.sim.workload.ports import ClientTransaction

#: Greatest value that is drawn for ``:amount``.
AMOUNT_MAX = 100
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0}


def chance(seed: int, name: str) -> random.Random:
    """Return the random source for one part of a load: the same seed and name give the same values."""
    return random.Random(f"{seed}/{name}")


def seconds(timing: Timing, of: random.Random) -> float:
    """Return a duration drawn from a timing's distribution."""
    first, *rest = timing.values
    low = _duration_s(first)
    if timing.distribution == "exponential":
        return of.expovariate(1 / low) if low else 0.0
    if timing.distribution == "lognormal":
        return low * of.lognormvariate(0.0, float(rest[0]))
    return of.uniform(low, _duration_s(rest[0])) if rest else low


def backoff(written: str | None, of: random.Random) -> float:
    """Return how long a client waits before its next attempt: a duration within a range such as ``5ms..50ms``."""
    if not written:
        return 0.0
    low, _, high = written.partition("..")
    return of.uniform(_duration_s(low), _duration_s(high))


def _duration_s(text: str) -> float:
    """Return the seconds of a duration such as ``0.5ms``, ``5s`` or ``2m``."""
    unit = text.lstrip("0123456789. ")
    return float(text.removesuffix(unit)) * _UNITS_S[unit]


def nodes(scenario: Scenario, workload: Workload) -> dict[str, int]:
    """Return the nodes at which clients work, with their weights."""
    topology = scenario.topology
    return dict(workload.nodes) or dict.fromkeys(topology.subscribers or (topology.publisher,), 1)


def places(weights: Mapping[str, int], clients: int) -> list[str]:
    """Return the node of each client, in turns, in numbers as close to the weights as whole clients allow."""
    given = dict.fromkeys(weights, 0)
    results = []
    for _ in range(clients):
        node = min(given, key=lambda each: (given[each] + 1) / weights[each])
        given[node] += 1
        results.append(node)
    return results


class Drawer:
    """Draws the transactions of a workload.

    Args:
        scenario: the scenario to which the workload belongs.
    """

    def __init__(self, scenario: Scenario, workload: Workload) -> None:
        known = {**scenario.transactions, **workload.transactions}
        self._mix = dict(workload.mix) or dict.fromkeys(known, 1)
        self._names = list(self._mix)
        self._weights = list(accumulate(self._mix.values()))
        self._statements = {name: _statements(known[name]) for name in self._names}
        keys = workload.keys_of
        self.count = keys.count if keys is not None else 1
        self.picker: Picker = picker(keys.pick, keys.count) if keys is not None else Uniform(1)

    def deed(self, number: int, of: random.Random) -> ClientTransaction:
        """Return the transaction with this number."""
        (name,) = of.choices(self._names, cum_weights=self._weights)
        key = self.picker.pick(of)
        drawn = {
            "key": key,
            "from": key,
            "to": self._other(key, of),
            "amount": of.randrange(AMOUNT_MAX) + 1,
            "new": self.count + number,
        }
        makes = any("new" in used for _, _, used in self._statements[name])
        return ClientTransaction(
            number=number,
            name=name,
            statements=tuple(
                (text, {**{each: drawn[each] for each in used if each in drawn}, **given})
                for text, given, used in self._statements[name]
            ),
            new=drawn["new"] if makes else None,
        )

    def _other(self, key: int, of: random.Random) -> int:
        """Return a different key from the same distribution, or a neighbouring key if only one is ever drawn."""
        for _ in range(8):
            result = self.picker.pick(of)
            if result != key:
                return result
        return key % self.count + 1


def _statements(steps: Sequence[Any]) -> list[tuple[str, Mapping[str, Any], tuple[str, ...]]]:
    """Return each statement with the values that the file gives, and the names of its parameters in order."""
    return [
        (text, _given(step.values, used := tuple(dict.fromkeys(sqltext.parameters(text)))), used)
        for step in steps
        for text in step.statements
    ]


def _given(values: Mapping[str, Any], used: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in used}
