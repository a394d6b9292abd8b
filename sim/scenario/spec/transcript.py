"""Derivation of isolationtester's output from the history of a played order.

isolationtester checks the session of each step that it launches, and then the waiting steps in the order in which
they began to wait: `_Tester` applies its `run_permutation` and `try_complete_step` to the records of the history.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twopc.sim.report.history import ENDS, HistoryRecord, by_order
from twopc.sim.scenario.spec.convert import SpecNames
from twopc.sim.scenario.spec.convert import names as names_of
from twopc.sim.scenario.spec.grammar import Blocker, Launch, Spec

_NEVER = 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The output for one permutation, line by line."""

    steps: tuple[str, ...]
    """The spec's names of the steps in the order of their launches."""
    lines: tuple[str, ...]
    """Output without the line that names the permutation."""


def transcripts(spec: Spec, records: Sequence[HistoryRecord]) -> Iterator[Transcript]:
    """Yield the transcript of each order in `records`.

    Args:
        spec: the spec that was played.
        records: all records of a run.
    """
    names = names_of(spec)
    for name, own in by_order(records):
        number = name.removeprefix("permutation ")
        listed = spec.permutations[int(number) - 1].launches if spec.permutations else None
        yield _Tester(spec, names, own, listed).transcript()


@dataclass(slots=True, eq=False)
class _LaunchedStep:
    """A step of the permutation with the data of its records."""

    name: str
    session: str
    """Name of the session in the spec."""
    printed: str
    """SQL of the step as written in the spec."""
    blockers: tuple[Blocker, ...]
    begun: int
    """Like `ended` and `blocked`, a sequence number of a record; a missing record has a number after all others."""
    ended: int = _NEVER
    blocked: int = _NEVER
    results: Sequence[Mapping[str, object]] = ()
    targets: dict[Blocker, int] = field(default_factory=dict)
    """By blocker, the number of notices that the session of its step must have sent."""


class _Tester:
    def __init__(
        self,
        spec: Spec,
        names: SpecNames,
        records: Sequence[HistoryRecord],
        listed: Sequence[Launch] | None,
    ) -> None:
        self._spec = spec
        self._records = records
        self._steps = self._launched(names.steps, listed)
        self._active: dict[str, _LaunchedStep] = {}
        """By session, the step that has not been reported as completed."""
        self._waiting: list[_LaunchedStep] = []
        self._lines: list[str] = []
        self._session_of = names.sessions
        self._messages = self._arrived()
        self._notices: dict[str, int] = {}
        """Number of printed notices of each session."""
        self._new_notice = False

    def _launched(
        self, names: Mapping[str, str], listed: Sequence[Launch] | None
    ) -> list[_LaunchedStep]:
        """Return all steps in the order of their start, with the data of their records."""
        result: dict[str, _LaunchedStep] = {}
        for record in self._records:
            own = result.get(record.step)
            if record.kind == "invoke" and record.step in names:
                name = names[record.step]
                session, step = self._spec.steps[name]
                result[record.step] = _LaunchedStep(
                    name=name,
                    session=session.name,
                    printed=step.block.printed,
                    blockers=listed[len(result)].blockers if listed is not None else (),
                    begun=record.seq,
                )
            elif own is not None and record.kind == "blocked":
                own.blocked = min(own.blocked, record.seq)
            elif own is not None and record.kind in ENDS:
                own.ended = record.seq
                own.results = (record.data or {}).get("results", ())
        return list(result.values())

    def _arrived(self) -> dict[str, list[tuple[int, Mapping[str, str]]]]:
        """Return by session the notices and notifications in order, each with the number of its record."""
        results: dict[str, list[tuple[int, Mapping[str, str]]]] = {}
        for record in self._records:
            if record.kind == "notice":
                session = self._session_of.get(record.session, record.session)
                messages = (record.data or {}).get("messages", ())
                results.setdefault(session, []).extend((record.seq, each) for each in messages)
        return results

    # -- one permutation ---------------------------------------------------------------------------

    def transcript(self) -> Transcript:
        """Repeat the algorithm of isolationtester for the permutation and return its output."""
        first = self._steps[0].begun if self._steps else _NEVER
        self._print_results("setup", first)
        for place, step in enumerate(self._steps):
            if step.session in self._active:
                self._until_free(step.session, step.begun)
            self._active[step.session] = step
            for blocker in step.blockers:
                if blocker.kind == "notices":
                    session = self._spec.steps[blocker.step][0].name
                    sent = self._notices.get(session, 0)
                    step.targets[blocker] = sent + blocker.notices
            quiet = self._quiet_after(place)
            waits = self._try(step, quiet, retry=False)
            self._try_all(quiet)
            if waits:
                self._waiting.append(step)
        self._try_all(_NEVER)
        self._print_results("teardown", _NEVER)
        steps = tuple(each.name for each in self._steps)
        return Transcript(steps=steps, lines=tuple(self._lines))

    def _quiet_after(self, place: int) -> int:
        """Return the number of the first record after all sessions have come to rest following a step."""
        if place + 1 == len(self._steps):
            return _NEVER
        until = self._steps[place + 1].begun
        queued = (
            each.seq
            for each in self._records
            if each.kind == "queued" and self._steps[place].begun < each.seq < until
        )
        return next(queued, until)

    def _print_results(self, kind: str, until: int) -> None:
        """Print the results of the spec's own SQL before or after the steps, and the notices until a record."""
        for record in self._records:
            data = record.data or {}
            if record.kind == kind or (
                kind == "setup" and record.kind == "info" and record.message == "stage"
            ):
                for each in data.get("results", ()):
                    self._lines += result_lines(each)
            if record.seq < until and record.kind == "notice":
                self._print_notices(
                    self._session_of.get(record.session, record.session), record.seq
                )

    def _until_free(self, session: str, now: int) -> None:
        """Wait for the step that keeps a session busy, and report all other steps that have ended."""
        while (busy := self._active.get(session)) is not None:
            before = len(self._waiting)
            if not self._try(busy, now, retry=True):
                self._waiting.remove(busy)
            self._try_all(now)
            if busy is self._active.get(session) and len(self._waiting) == before:
                return  # isolationtester would wait indefinitely

    # -- one step ----------------------------------------------------------------------------------

    def _try_all(self, now: int) -> None:
        """Report the waiting steps that have ended by `now`, repeatedly while a report may release another step."""
        while True:
            before, self._new_notice = len(self._waiting), False
            self._waiting = [each for each in self._waiting if self._try(each, now, retry=True)]
            is_held = any(each.blockers for each in self._waiting)
            if not is_held or not (len(self._waiting) < before or self._new_notice):
                return

    def _try(self, step: _LaunchedStep, now: int, *, retry: bool) -> bool:
        """Report a step if it has ended by `now`. Return True if it has not ended, or is held back by a blocker."""
        if not retry and any(each.kind == "once" for each in step.blockers):
            self._waits(step)
            return True
        seen_waiting = not retry and step.blocked < step.ended
        self._print_notices(step.session, step.blocked if seen_waiting else now)
        if step.ended > now or seen_waiting or self._is_held(step):
            if not retry:
                self._waits(step)
            return True
        what = "<... completed>" if retry else step.printed
        self._lines += f"step {step.name}: {what}".split("\n")
        for each in step.results:
            self._lines += result_lines(each)
        self._print_notifications(step, now)
        self._active.pop(step.session, None)
        return False

    def _waits(self, step: _LaunchedStep) -> None:
        self._lines += f"step {step.name}: {step.printed} <waiting ...>".split("\n")

    def _is_held(self, step: _LaunchedStep) -> bool:
        """Return whether a blocker of the permutation delays the report of a step."""
        for blocker in step.blockers:
            if blocker.kind == "once":
                continue
            session = self._spec.steps[blocker.step][0].name
            other = self._active.get(session)
            if blocker.kind == "other" and other is not None and other.name == blocker.step:
                return True
            if blocker.kind == "notices" and self._notices.get(session, 0) < step.targets[blocker]:
                return True
        return False

    # -- messages ----------------------------------------------------------------------------------

    def _print_notices(self, session: str, until: int) -> None:
        """Print the notices that a session received up to the record `until`."""
        for message in self._taken(session, "text", until):
            self._lines += f"{session}: {message['text']}".split("\n")
            self._notices[session] = self._notices.get(session, 0) + 1
            self._new_notice = True

    def _print_notifications(self, step: _LaunchedStep, now: int) -> None:
        for message in self._taken(step.session, "channel", now):
            sender = self._session_of.get(message["from"], message["from"])
            self._lines.append(
                f'{step.session}: NOTIFY "{message["channel"]}" with payload "{message["payload"]}" '
                f"from {sender}"
            )

    def _taken(self, session: str, kind: str, until: int) -> list[Mapping[str, str]]:
        """Remove and return the messages that have a key and that a session received up to the record `until`."""
        taken, left = [], []
        for seq, message in self._messages.get(session, ()):
            if seq <= until and kind in message:
                taken.append(message)
            else:
                left.append((seq, message))
        self._messages[session] = left
        return taken


#: `do_field` of fe-print.c: digits and signs only, a digit at the end, no exponent at the beginning.
_NUMERIC = re.compile(r"[0-9. -][0-9.Ee -]*(?<=[0-9])")


def result_lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of one entry of `twopc.sim.sessions.scripts.printable`."""
    if "error" in result:
        yield from str(result["error"]).split("\n")
    elif result.get("columns"):  # a result without columns is not printed
        yield from _table(result["columns"], result["rows"], result["rowcount"])


def _table(
    columns: Sequence[str], rows: Sequence[Sequence[str | None]], count: int
) -> Iterator[str]:
    cells = [[value or "" for value in row] for row in rows]
    right = [
        all(not row[at] or _NUMERIC.fullmatch(row[at]) for row in cells)
        for at in range(len(columns))
    ]
    widths = [max(_bytes(row[at]) for row in [columns, *cells]) for at in range(len(columns))]

    def line(row: Sequence[str]) -> str:
        return "|".join(
            " " * (width - _bytes(text)) + text if on_right else text + " " * (width - _bytes(text))
            for text, width, on_right in zip(row, widths, right, strict=True)
        )

    yield line(columns)
    yield "+".join("-" * width for width in widths)
    for row in cells:
        yield from line(row).split("\n")
    yield f"({count} row{'' if count == 1 else 's'})"
    yield ""


def _bytes(text: str) -> int:
    return len(text.encode())
