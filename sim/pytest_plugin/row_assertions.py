"""Explanation of failed assertions about rows: a table of the differences."""

from __future__ import annotations

from typing import Any


def compare(op: str, left: Any, right: Any) -> list[str] | None:
    """Return the lines for ``left == right`` if one side consists of a table's rows; None: another comparison."""
    import sys

    results = sys.modules.get("twopc.sim.sessions.results")
    if op != "==" or results is None:
        return None  # no rows were read in this run
    if not isinstance(left, results.Rows) and not isinstance(right, results.Rows):
        return None
    if not all(isinstance(side, list | tuple) and _are_rows(side) for side in (left, right)):
        return None
    here, there = _name(left, "left"), _name(right, "right")
    lines = [f"{here} is not {there}"]
    names = list(dict.fromkeys(name for row in [*left, *right] for name in row))
    marked = []
    for at in range(max(len(left), len(right))):
        one = left[at] if at < len(left) else None
        other = right[at] if at < len(right) else None
        if one == other:
            marked.append((" ", one))
            continue
        marked += [("-", each) for each in (one,) if each is not None]
        marked += [("+", each) for each in (other,) if each is not None]
    shown = results.table(
        [{"": sign, **(row or {})} for sign, row in marked] or [dict.fromkeys(names)]
    )
    return [*lines, *shown, f"(- only in {here}, + only in {there})"]


def _are_rows(side: Any) -> bool:
    return all(isinstance(row, dict) for row in side)


def _name(side: Any, otherwise: str) -> str:
    return str(getattr(side, "where", "") or otherwise)
