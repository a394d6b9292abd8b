"""Comparison of isolationtester's expected output with the output derived from a played order."""

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
    """A permutation in an expected output."""

    steps: str
    """Names of the steps as printed, separated by spaces."""
    line: int
    """Number of its first line."""
    lines: tuple[str, ...]
    """Output of the permutation, without the line that names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecDifference:
    """The first line in which the output of a permutation differs from the expected output."""

    path: str
    line: int
    """Line number in the expected output."""
    permutation: str
    step: str
    """The last step named in the expected output before or at the difference."""
    expected: str
    got: str

    def __str__(self) -> str:
        at = f"{self.path}:{self.line}: permutation: {self.permutation}"
        step = f"\n  step:     {self.step}" if self.step else ""
        return f"{at}{step}\n  expected: {self.expected}\n  got:      {self.got}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecAgreement:
    """Result of comparing a run with an expected output."""

    path: str
    """Path of the expected output, that of the closest alternative."""
    count: int
    """Number of permutations that are expected, or that were played without being expected."""
    differences: tuple[SpecDifference, ...]
    """The first difference of each permutation that differs."""

    @property
    def agreeing(self) -> int:
        """Number of permutations whose output agrees line by line."""
        return self.count - len(self.differences)


def alternatives(path: Path) -> Iterator[Path]:
    """Yield an expected output and its alternatives beside it, ``name_0.out`` to ``name_9.out``, as in pg_regress."""
    yield path
    for number in range(10):
        other = path.with_name(f"{path.stem}_{number}{path.suffix}")
        if other.exists():
            yield other


def agreement(path: Path, played: Sequence[Transcript]) -> SpecAgreement:
    """Compare the transcripts of a run with an expected output, or with the closest of its alternatives.

    Raises:
        ScenarioError: the file cannot be read, or is not an output of isolationtester.
    """
    results = [_compared(each, played) for each in alternatives(path)]
    return min(results, key=lambda each: len(each.differences))


def expected(path: Path) -> list[ExpectedPermutation]:
    """Return the permutations of an expected output.

    Raises:
        ScenarioError: see `agreement`.
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
    """Return the lines without the empty ones at the end, which separate permutations."""
    count = len(lines)
    while count and not lines[count - 1]:
        count -= 1
    return tuple(lines[:count])
