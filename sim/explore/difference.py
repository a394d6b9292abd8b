"""Difference between two runs of an order, in one sentence. A pure function of the runs.

The comparison is complete by construction: first the results are compared aspect by aspect, most of them in words
of their own; if they are equal, the course of the runs; and last everything else that a page gets of a run, as one
text without times and identifiers. Only runs whose texts are equal are reported as equal.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

from twopc.sim.explore.aspects import (
    added_checks,
    checks,
    idle_faults,
    missed_expectations,
    outcomes,
    prepared_branches,
    remaining_state,
    rows,
    steps,
)
from twopc.sim.explore.wire.runs import PlayVariant, WireRun
from twopc.sim.report.behaviour import stable
from twopc.sim.report.sentences import listed

Aspect = Callable[[WireRun, WireRun], Iterable[str]]
#: Aspects of a run's results: steps and outcomes first, as they cause the others.
_RESULTS: tuple[Aspect, ...] = (
    steps,
    outcomes,
    checks,
    rows,
    prepared_branches,
    missed_expectations,
)
#: Number of differences per aspect that are named; the others are counted.
_MAX = 2
#: Beginnings of sentences about switches, which the lead of the comparison mentions.
_OF_SWITCHES = ("Here ", "Played with ")
#: Names of the parts of a page that are not compared in words.
_PARTS: Mapping[str, str] = {
    "order": "the order",
    "cards": "what the cards show",
    "agents": "what the agents do",
    "moments": "the moments of the run",
    "states": "how everything stands in between",
    "messages": "the messages",
    "arrivals": "the points that are passed",
    "invariants": "the reasons of what does not hold",
    "failures": "the reasons of what is not as expected",
    "story": "the story",
}


def compared(before: WireRun, was: PlayVariant, after: WireRun, now: PlayVariant) -> str:
    """Return ``With version check off, b_write waits and is accepted (before: refused); bob is committed …``."""
    lead, parts = _lead(was, now), idle_faults(after, now)
    if before["possible"] != after["possible"]:
        came_to = [_possible(after)]
    else:
        came_to = [*_first_of_each(_RESULTS, before, after)]
    parts += came_to or _course_differences(before, after)
    if not parts:
        return f"{lead}nothing is otherwise{_duration(before, after)}: {_lower(after['outcome'])}"
    text = "; ".join(parts)
    return f"{lead}{text}." if lead else f"{text[:1].upper()}{text[1:]}."


def _first_of_each(aspects: Iterable[Aspect], before: WireRun, after: WireRun) -> Iterator[str]:
    for aspect in aspects:
        every = [*aspect(before, after)]
        yield from every[:_MAX]
        if len(every) > _MAX:
            yield f"and {len(every) - _MAX} more of the kind"


def _lead(was: PlayVariant, now: PlayVariant) -> str:
    old, new = was.get("switches") or {}, now.get("switches") or {}
    changed = [
        f"{_called(name)} {(new.get(name) or 'as in the file').replace('_', ' ')}"
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    ]
    if (was.get("faults") or []) != (now.get("faults") or []):
        placed = [f"{each['do']} at {each['at']}" for each in now.get("faults") or ()]
        changed.append(listed(placed) if placed else "no fault")
    if changed and was["order"] != now["order"]:  # a play in between was omitted or refused
        changed.insert(0, "another order of the steps")
    return f"With {listed(changed)}, " if changed else ""


def _called(name: str) -> str:
    return name.removeprefix("protection.").replace("_", " ")


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _possible(after: WireRun) -> str:
    now = after["possible"]
    return "the order is possible" if now is True else f"the order is not possible: {now['reason']}"


# -- on the way --------------------------------------------------------------------------------------


def _course_differences(before: WireRun, after: WireRun) -> list[str]:
    """Return the differences between runs with the same results."""
    parts = [*_first_of_each((_agents, _messages, remaining_state), before, after)]
    if not parts:
        parts = [*_first_of_each((_moments,), before, after)] or [*_other_parts(before, after)]
    results = []
    if parts:
        same = "every step, check and row comes to the same"
        results.append(f"{same}; only on the way something is otherwise: {', '.join(parts)}")
    if too := added_checks(before, after):
        holds = "is checked, too, and holds" if len(too) == 1 else "are checked, too, and hold"
        results += [*([] if parts else ["all goes as before"]), f"{listed(too)} {holds}"]
    return results


def _messages(before: WireRun, after: WireRun) -> Iterator[str]:
    old, new = len(before["messages"]), len(after["messages"])
    if old != new:
        yield f"{new} message{'' if new == 1 else 's'} (before: {old})"
    yield from _more_and_less("is sent", *(_sent(run) for run in (before, after)))


def _sent(run: WireRun) -> list[str]:
    return [f"{each['sender']} → {each['receiver']}: {each['text']}" for each in run["messages"]]


def _agents(before: WireRun, after: WireRun) -> Iterator[str]:
    texts = [[each["text"] for each in run["agents"]] for run in (before, after)]
    yield from _more_and_less("is done by agents", *texts)


def _moments(before: WireRun, after: WireRun) -> Iterator[str]:
    old, new = ([each["text"] for each in run["moments"]] for run in (before, after))
    yield from _more_and_less("happens", old, new)
    pairs = zip(map(stable, old), map(stable, new), strict=False)
    first = next((pair for pair in pairs if pair[0] != pair[1]), None)
    if first is not None:
        yield f"the sequence: “{first[1]}” comes where “{first[0]}” came"


def _more_and_less(does: str, old: Iterable[str], new: Iterable[str]) -> Iterator[str]:
    """Yield the first text that is new, and the first one that is missing now."""
    was, now = Counter(map(stable, old)), Counter(map(stable, new))
    more, less = [*(now - was)], [*(was - now)]
    if more:
        yield f"“{more[0]}” {does} now"
    if less:
        yield f"“{less[0]}” {does} no more" if not more else f"not “{less[0]}”"


# -- everything --------------------------------------------------------------------------------------


def _other_parts(before: WireRun, after: WireRun) -> Iterator[str]:
    """Yield the other parts of a page that differ."""
    names = {each["name"] for each in before["invariants"]}
    names &= {each["name"] for each in after["invariants"]}
    old, new = _plain(before, names), _plain(after, names)
    differing = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if differing:
        yield listed([_PARTS.get(name, name) for name in differing])


def _plain(run: WireRun, names: Container[str]) -> dict[str, str]:
    """Return each part of a run's page as text, without times and identifiers.

    Args:
        names: the checks that both runs made.
    """
    checked = [each for each in run["invariants"] if each["name"] in names]
    values: dict[str, Any] = {**run, "story": _sentences(run), "invariants": checked}
    for name in ("elapsed_ms", "on"):
        del values[name]
    return {
        name: stable(json.dumps(_timeless(value), sort_keys=True, ensure_ascii=False))
        for name, value in values.items()
    }


def _sentences(run: WireRun) -> list[str]:
    return [each for each in run["story"] if not each.startswith(_OF_SWITCHES)]


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(each) for key, each in value.items() if not key.endswith("_ms")}
    return [_timeless(each) for each in value] if isinstance(value, list) else value


def _duration(before: WireRun, after: WireRun) -> str:
    """Return a text about another duration in virtual time; empty for runs on servers, which have no moments."""
    old, new = (run["moments"][-1]["at_ms"] if run["moments"] else 0.0 for run in (before, after))
    return f", but that it is over after {new:.1f} ms (before: {old:.1f} ms)" if old != new else ""
