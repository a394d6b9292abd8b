"""Texts of runs without values that differ between runs: times, gids, row versions, log positions.

Used wherever a text of a live run is compared with a recorded one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from twopc.sim.report.behaviour import stable
from twopc.sim.report.fold import Fold
from twopc.sim.report.groups import groups
from twopc.sim.report.history import HistoryRecord
from twopc.sim.report.story import story

_POSITION = re.compile(r"\b[0-9A-F]{1,8}/[0-9A-F]{1,8}\b")
_FRESH = (
    (_POSITION, "<position>"),
    (re.compile(r"\b\d+(?:\.\d+)? (ms|s)\b"), r"… \1"),
    (re.compile(r"\bprocess \d+\b"), "process …"),
    (re.compile(r"\bpid \d+\b"), "pid …"),
    # snapshot files with rows have their generation in their names
    (re.compile(r"_[0-9a-f]{8}(?=_\d{4}\.bcp|\.sys)"), "_…"),
)


#: The commands of one transaction: the order of the rows of a statement is not defined, and only
#: some of many commands are shown.
_COMMANDS = re.compile(r"(?<=transaction )\(([^()]*; [^()]*)\)")


_PASSING = re.compile(r"waits at \S+ for (process|branch) |^An agent waits ")


def normal(text: str) -> str:
    """Return `text` as it is in every run of the same order."""
    text = _COMMANDS.sub(lambda found: f"({_sorted(found[1].split('; '))})", stable(text))
    for pattern, word in _FRESH:
        text = pattern.sub(word, text)
    return text


def _sorted(commands: list[str]) -> str:
    if any(re.fullmatch(r"\d+ more", each) for each in commands):
        return f"{len(commands) - 1} commands and {commands[-1]}"
    if any(
        "…" in each for each in commands
    ):  # which commands are shown completely depends on their order
        return f"{len(commands)} long commands"
    return "; ".join(sorted(commands))


def stories(records: Sequence[HistoryRecord]) -> str:
    """Return the stories of a run, one per behaviour, for comparison with recorded ones.

    They contain no waits for processes outside the scenario, such as a busy agent.
    """
    lines: list[str] = []
    for group in groups(records):
        for order in group.drawn:
            told = [normal(sentence) for sentence in story(Fold(_of_one_length(order.records)))]
            lines += [order.name, *(f"  {each}" for each in told if not _PASSING.search(each)), ""]
    return "\n".join(lines)


def _of_one_length(records: Sequence[HistoryRecord]) -> list[HistoryRecord]:
    """Return the records with positions of equal length, because long messages are cut at a width."""
    return [replace(each, message=_POSITION.sub("0/1000000", each.message)) for each in records]
