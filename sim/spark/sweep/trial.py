"""One trial of a sweep: a scenario played on the model with one seed, and its result as a row.

A trial depends only on the scenario and the seed, not on its caller or machine.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from hdrh.histogram import HdrHistogram

from twopc.sim.replay.loads import LoadTransaction
from twopc.sim.report.history import History, HistoryRecord
from twopc.sim.report.load import of as load_of
from twopc.sim.scenario.check import LoadedScenario
from twopc.sim.scenario.run import run
from twopc.sim.scenario.theatres import TheatreOptions, played, theatre
from twopc.sim.scenario.values import Selection

#: Verdict of a trial that broke off, which says nothing about the scenario.
BROKEN = "broken"
#: Outcome of a session's last transaction, in a record of kind ``outcome``, and the count to which it belongs.
_OUTCOMES = {"committed": "committed", "in doubt": "in_doubt"}
_TIMED = ("commit", "in_doubt", "conflict")


def selection(
    seed: int | None, order: str = "", recording: Sequence[LoadTransaction] | None = None
) -> Selection:
    """Return what a trial plays of a scenario: all of it, or one order; no twins, which are meant to fail."""
    return Selection(orders=(order,) if order else (), seed=seed, twins=False, recording=recording)


def trial(loaded: LoadedScenario, seed: int, *, order: str = "") -> Mapping[str, object]:
    """Play a scenario once on the model.

    Returns:
        A row of `twopc.sim.spark.shapes.TRIALS`, except for `point`, `parameters` and `repro`. It is determined by
        the scenario and the seed, except for `wall_s`. Several loads of a scenario (the cells of a matrix) are
        added up.
    """
    return simulated(loaded, seed, order=order)[0]


def simulated(
    loaded: LoadedScenario,
    seed: int,
    *,
    order: str = "",
    load_seed: int | None = None,
    recording: Sequence[LoadTransaction] | None = None,
) -> tuple[Mapping[str, object], Sequence[HistoryRecord]]:
    """Play a scenario as `trial` does, and also return its history.

    Args:
        load_seed: seed for the values that a load draws; None: `seed`.
        recording: transactions that a load plays instead of drawn ones.
    """
    began = time.perf_counter()
    history = History(None)
    row: dict[str, object] = {"seed": seed, "failure": None}
    chosen = selection(seed if load_seed is None else load_seed, order, recording)
    try:
        place = theatre("model", TheatreOptions(seed=seed))
        verdict = played("model", run(loaded, place, history, selection=chosen))
    except Exception as error:  # every trial gives a row, even if it fails
        row |= {"verdict": BROKEN, "kind": BROKEN, "failure": f"{type(error).__name__}: {error}"}
    else:
        report = verdict.as_json()
        row |= {"verdict": report["verdict"], "kind": report["kind"] or ""}
        if report["first_failure"] is not None:
            row["failure"] = str(report["first_failure"]["message"])
    row |= figures(history.records)
    row["wall_s"] = time.perf_counter() - began
    return row, history.records


def figures(records: Sequence[HistoryRecord]) -> dict[str, object]:
    """Return counts, durations and latencies of all cases."""
    cases: dict[str, list[HistoryRecord]] = {}
    text = hashlib.sha256()
    for record in records:
        text.update(record.line().encode() + b"\n")
        if record.order:
            cases.setdefault(record.order, []).append(record)
    counts: Counter[str] = Counter()
    histograms: dict[str, HdrHistogram] = {}
    seconds = 0.0
    for each in cases.values():
        report = load_of(each)
        if not report:
            counts.update(_counted(each))
            seconds += (each[-1].t_us - each[0].t_us) / 1e6
            continue
        counts.update(report["counts"])
        seconds += report["seconds"]
        for name, encoded in report["histograms"].items():
            add(histograms, name, encoded)
    attempts = counts["attempts"]
    return {
        "committed": counts["committed"],
        "rejected": counts["rejected"],
        "errors": counts["error"],
        "in_doubt": counts["in_doubt"],
        "attempts": attempts,
        "conflict_rate": counts["rejected"] / attempts if attempts else None,
        "virtual_s": seconds,
        **{
            f"{name}_hdr": histograms[name].encode().decode() if name in histograms else None
            for name in _TIMED
        },
        "history_sha256": text.hexdigest(),
    }


def _counted(records: Sequence[HistoryRecord]) -> dict[str, int]:
    """Count how the transactions of a case without a load ended."""
    results: Counter[str] = Counter()
    lines = {(record.session, record.kind) for record in records}
    for record in records:
        if record.kind != "outcome" or record.message == "none":
            continue
        results["attempts"] += 1
        if record.message in _OUTCOMES:
            results[_OUTCOMES[record.message]] += 1
        else:  # rolled back: rejected, failed, or on purpose
            ended = [kind for kind in ("rejected", "error") if (record.session, kind) in lines]
            results.update(ended[:1])
    return dict(results)


def add(histograms: dict[str, HdrHistogram], name: str, encoded: str) -> None:
    """Add an encoded histogram, as `Figures` writes it, to the histogram of that name."""
    if name in histograms:
        histograms[name].decode_and_add(encoded)
    else:
        histograms[name] = HdrHistogram.decode(encoded)
