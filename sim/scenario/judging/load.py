"""Judges a load: what must always hold, what is said of rejections and rows, and its thresholds.

Pure: a case and records in, failures with their places out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sim.report.history import Record
from sim.report.load import in_short, of
from sim.scenario.judging import counts
from sim.scenario.judging.expected import Expected
from sim.scenario.judging.invariants import invariants
from sim.scenario.judging.rows import tables
from sim.scenario.judging.runs import Runs
from sim.scenario.judging.steps import hangs
from sim.scenario.judging.twins import judge_twin, note
from sim.scenario.judging.verdicts import Failure, OrderVerdict
from sim.scenario.words import Case

#: So many failures of one check are shown.
SHOWN_MAX = 5


def judge_load(case: Case, records: Sequence[Record]) -> OrderVerdict:
    """Compare a load's records with everything that is expected of it."""
    expected, runs = Expected(case), Runs(records)
    told = of(records)
    failures = _not_too_many(
        [
            *hangs(case, expected, runs),
            *counts.rejected(case, expected, runs),
            *tables(case, expected, runs),
            *invariants(case, expected, runs),
            *_thresholds(told),
        ]
    )
    notes = (in_short(told),) if told else ()
    failed: frozenset[str] = frozenset()
    if case.twin is not None:
        failures, failed = judge_twin(case, failures)
        notes = notes if failures else (note(case, failed),)
    playing = [record.t_us for record in records if record.session]
    return OrderVerdict(
        name=case.name,
        group=case.group,
        failures=tuple(failures),
        elapsed_us=playing[-1] - playing[0] if playing else 0,
        notes=notes,
        twin=case.twin is not None,
        failed=failed,
    )


def _not_too_many(failures: Sequence[Failure]) -> list[Failure]:
    """Of each check the first few, and how many more there are: what breaks under load breaks often."""
    found: list[Failure] = []
    for check in dict.fromkeys(failure.check for failure in failures):
        of = [failure for failure in failures if failure.check == check]
        found += of[:SHOWN_MAX]
        if len(of) > SHOWN_MAX:
            message = f"{check}: and {len(of) - SHOWN_MAX} more like these"
            found.append(replace(of[SHOWN_MAX], message=message))
    return found


def _thresholds(told: dict[str, Any]) -> Iterator[Failure]:
    for place, each in enumerate(told.get("thresholds", ())):
        if not each["kept"]:
            measured = each["measured"] or "nothing to measure"
            yield Failure(
                path=("thresholds", place),
                message=f"expected {each['bound']}, got {measured}",
                kind="threshold",
                check=f"thresholds.{place + 1}",
                expected_text=each["bound"],
                actual_text=measured,
            )
