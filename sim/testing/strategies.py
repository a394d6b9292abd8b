"""Strategies of Hypothesis for orders and isolation levels: ``@given(strategies.orders({"a": 2, "b": 2}))``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from twopc.sim.scenario.ordering.enumerate import Space
from twopc.sim.sessions.local import LEVELS
from twopc.sim.testing.orders import pair


def orders(
    sequences: Mapping[str, int | Sequence[Any]], *, before: Sequence[str] = ()
) -> SearchStrategy[tuple[str, ...]]:
    """Return a strategy for orders in which each sequence keeps its own, as names of steps (``a0``, ``b0`` …).

    Hypothesis shrinks towards the first order: one sequence after the other.

    Args:
        sequences: number of steps of each sequence, or its steps, by name.
        before: ``a0 < b1``: only orders in which a0 comes first.
    """
    names = {
        name: [f"{name}{n}" for n in range(each if isinstance(each, int) else len(each))]
        for name, each in sequences.items()
    }
    known = {step: name for name, steps in names.items() for step in steps}
    space = Space(list(names.values()), [pair(text, known) for text in before])
    if not space.count:
        raise ValueError(f"no order fulfils {', '.join(before)}")
    return st.integers(min_value=1, max_value=space.count).map(space.unrank)


def isolation() -> SearchStrategy[str]:
    """Return a strategy for the three isolation levels, the weakest first."""
    return st.sampled_from(LEVELS)
