"""``twopc merge sync --interactive``: a user at the terminal resolves conflicts one by one."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Any, Never

from twopc.merge.decision import Side
from twopc.merge.encounters import MergeEncounter, Resolution, Row, checked
from twopc.sim.cli.place import shown
from twopc.sim.merge.conflict_texts import kind_words

_PROMPT = 'Enter: as proposed; h: the row held; i: the incoming one; or values, as {"phone": "3"}: '
_SIDES = {"h": Side.HELD, "i": Side.INCOMING}


async def ask(encounter: MergeEncounter, proposal: Resolution | None) -> Resolution | None:
    """Show a conflict and read an answer; an empty line or the end of the input accepts the proposal.

    Args:
        proposal: that of a handler or resolver; None: the default.
    """
    for line in _lines(encounter, proposal):
        print(shown(line), file=sys.stderr)
    while True:
        print(_PROMPT, end="", file=sys.stderr, flush=True)
        answer = (await asyncio.to_thread(sys.stdin.readline)).strip()
        try:
            return _resolution(answer, encounter)
        except ValueError as error:
            print(f"{shown(answer)}: {shown(str(error))}", file=sys.stderr)


def _resolution(answer: str, encounter: MergeEncounter) -> Resolution | None:
    """Return the resolution that an answer means; None accepts the proposal.

    Raises:
        ValueError: the answer is invalid.
    """
    if not answer:
        return None
    if answer in _SIDES:
        return Resolution(winner=_SIDES[answer])
    if not answer.startswith("{"):
        raise ValueError("no such answer")
    try:
        row = json.loads(answer, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    for text in _texts(row):
        if "\0" in text:
            raise ValueError("a text holds a NUL character, which no text of PostgreSQL can")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                "a text holds half of a surrogate pair, which is no character"
            ) from error
    return checked(Resolution(row=row), encounter)


def _refuse_constant(name: str) -> Never:
    raise ValueError(f'{name} is no JSON: write it as a text, "{name}"')


def _texts(value: Any) -> Iterator[str]:
    """Yield every text of a JSON document, including names, without recursion."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            waiting += [*each, *each.values()]
        elif isinstance(each, list):
            waiting += each


def _lines(encounter: MergeEncounter, proposal: Resolution | None) -> Iterator[str]:
    what = "conflict" if encounter.conflict is None else kind_words(encounter.conflict)
    yield f"{encounter.table} {encounter.rowguid}: {what}"
    yield f"  held at {encounter.at}, by {encounter.held_by} (priority {encounter.held_priority:g}): {_row(encounter.held)}"
    yield f"  incoming from {encounter.incoming_by} (priority {encounter.priority:g}): {_row(encounter.incoming)}"
    winner = encounter.winner if proposal is None or proposal.winner is None else proposal.winner
    values = f", with {_row(proposal.row)}" if proposal is not None and proposal.row else ""
    yield f"  proposed: {'the row held' if winner is Side.HELD else 'the incoming row'} stays{values}"


def _row(row: Row | None) -> str:
    return "deleted" if row is None else ", ".join(f"{name}={value}" for name, value in row.items())
