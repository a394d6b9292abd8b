"""isolationtester's expected output, compared with what an order that was played would have printed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from twopc.errors import ScenarioError
from twopc.sim.scenario.spec.transcript import Transcript

_BEGINS = "starting permutation:"
_STEP = re.compile(r"step ([^:]*): ")
_END = "the end of the permutation"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedPermutation:
    """One permutation of an expected output."""

    steps: str
    """Their names as they are printed, between blanks."""
    line: int
    """Where it begins."""
    lines: tuple[str, ...]
    """What is printed of it, without the line that names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecDifference:
    """The first line in which a permutation differs from what is expected."""

    path: str
    line: int
    """In the expected output."""
    permutation: str
    step: str
    """The last one that is named before the difference, or in it."""
    expected: str
    got: str

    def __str__(self) -> str:
        at = f"{self.path}:{self.line}: permutation: {self.permutation}"
        step = f"\n  step:     {self.step}" if self.step else ""
        return f"{at}{step}\n  expected: {self.expected}\n  got:      {self.got}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecAgreement:
    """How far a run agrees with an expected output."""

    path: str
    """Of the expected output, the best of the alternatives."""
    count: int
    """How many permutations are expected, or were played without being expected."""
    differences: tuple[SpecDifference, ...]
    """The first one of each permutation that differs."""

    @property
    def agreeing(self) -> int:
        """How many permutations agree, line by line."""
        return self.count - len(self.differences)


def alternatives(path: Path) -> Iterator[Path]:
    """An expected output and its alternatives, ``name_0.out`` to ``name_9.out`` beside it, as pg_regress has them."""
    yield path
    for number in range(10):
        other = path.with_name(f"{path.stem}_{number}{path.suffix}")
        if other.exists():
            yield other


def agreement(path: Path, played: Sequence[Transcript]) -> SpecAgreement:
    """Compare what was played with an expected output, or with whichever of its alternatives is closest.

    Raises:
        ScenarioError: the file cannot be read, or is no output of isolationtester.
    """
    results = [_compared(each, played) for each in alternatives(path)]
    return min(results, key=lambda each: len(each.differences))


def expected(path: Path) -> list[ExpectedPermutation]:
    """The permutations of an expected output.

    Raises:
        ScenarioError: as `agreement`.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: cannot read it: {error}") from error
    begins = [at for at, line in enumerate(lines) if line.startswith(_BEGINS)]
    if not begins:
        raise ScenarioError(
            f"{path}:1: no line begins with '{_BEGINS}': it is no output of isolationtester"
        )
    return [
        ExpectedPermutation(
            steps=lines[at].removeprefix(_BEGINS).strip(),
            line=at + 1,
            lines=_trimmed(lines[at + 1 : until]),
        )
        for at, until in zip(begins, [*begins[1:], len(lines)], strict=True)
    ]


def _compared(path: Path, played: Sequence[Transcript]) -> SpecAgreement:
    left: dict[str, list[Transcript]] = {}
    for each in played:
        left.setdefault(" ".join(each.steps), []).append(each)
    differences = []
    permutations = expected(path)
    for one in permutations:
        own = left.get(one.steps)
        difference = _difference(path, one, own.pop(0).lines if own else None)
        if difference is not None:
            differences.append(difference)
    differences += [
        SpecDifference(
            path=str(path),
            line=permutations[-1].line + len(permutations[-1].lines) + 1,
            permutation=steps,
            step="",
            expected="the end of the file",
            got=f"{_BEGINS} {steps}",
        )
        for steps, more in left.items()
        for _ in more
    ]
    count = len(permutations) + sum(map(len, left.values()))
    return SpecAgreement(path=str(path), count=count, differences=tuple(differences))


def _difference(
    path: Path, permutation: ExpectedPermutation, got: Sequence[str] | None
) -> SpecDifference | None:
    if got is None:
        return SpecDifference(
            path=str(path),
            line=permutation.line,
            permutation=permutation.steps,
            step="",
            expected=f"{_BEGINS} {permutation.steps}",
            got="it was not played to its end",
        )
    step = ""
    for at, (one, other) in enumerate(zip_longest(permutation.lines, _trimmed(got))):
        named = _STEP.match(one or "")
        step = named[1] if named is not None else step
        if one != other:
            return SpecDifference(
                path=str(path),
                line=permutation.line + 1 + at,
                permutation=permutation.steps,
                step=step,
                expected=_END if one is None else one,
                got=_END if other is None else other,
            )
    return None


def _trimmed(lines: Sequence[str]) -> tuple[str, ...]:
    """Without the empty lines at the end, which part permutations."""
    count = len(lines)
    while count and not lines[count - 1]:
        count -= 1
    return tuple(lines[:count])
