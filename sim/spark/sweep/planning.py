"""Planning of a sweep: which trials are played next, and in which batches; pure and deterministic.

A batch is the work of one task: seeds of one point, about two seconds long. A wave is the work of one Spark job;
its results are stored before the next wave begins. The longest batches begin first and single trials last, so that
all cores finish at about the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: Intended duration of a batch.
BATCH_S = 2.0
#: Number of batches of a wave for each core.
BATCHES_A_CORE = 8


@dataclass(frozen=True, slots=True)
class TrialBatch:
    """Trials of one point that one task plays in sequence."""

    point: int
    seeds: tuple[int, ...]


def wave(
    todo: Sequence[tuple[int, int]], cost_s: Mapping[int, float], *, cores: int, most: int
) -> list[TrialBatch]:
    """Return the batches of the next wave, in the order in which they begin.

    Args:
        todo: the remaining trials, as point and seed; not empty.
        cost_s: mean duration of a trial, by point, as far as known.
        cores: number of tasks that run at once.
        most: maximum number of trials per batch.
    """
    seeds: dict[int, list[int]] = {}
    for point, seed in todo:
        seeds.setdefault(point, []).append(seed)
    if not cost_s:
        return _first(seeds, 2 * cores)
    usual = sum(cost_s.values()) / len(cost_s)
    results: list[TrialBatch] = []
    for point in sorted(seeds, key=lambda each: (-cost_s.get(each, usual), each)):
        size = max(1, min(most, round(BATCH_S / max(cost_s.get(point, usual), 1e-3))))
        of_point = seeds[point]
        results += [
            TrialBatch(point, tuple(of_point[at : at + size]))
            for at in range(0, len(of_point), size)
        ]
    results = results[: BATCHES_A_CORE * cores]
    results.sort(key=lambda each: -len(each.seeds) * cost_s.get(each.point, usual))
    whole, last = results[:-cores], results[-cores:]
    return whole + [TrialBatch(each.point, (seed,)) for each in last for seed in each.seeds]


def _first(seeds: Mapping[int, Sequence[int]], count: int) -> list[TrialBatch]:
    """Return single trials spread over the points, as their durations are not known yet."""
    rounds = max(len(each) for each in seeds.values())
    spread = [
        TrialBatch(point, (of_point[number],))
        for number in range(rounds)
        for point, of_point in seeds.items()
        if number < len(of_point)
    ]
    points = len(seeds)
    if points <= count:
        return spread[:count]
    return [spread[at * points // count] for at in range(count)]
