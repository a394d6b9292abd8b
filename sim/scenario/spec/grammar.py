"""Parser of isolationtester specs, equivalent to PostgreSQL's specparse.y and the checks that follow it.

After an error the parser continues at the next keyword that begins a part of the spec, so that all errors are
reported at once. This module does not depend on scenarios.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from twopc.sim.scenario.spec.lexer import KEYWORDS, Kind, SpecToken, tokens
from twopc.sim.scenario.text import Document, Mark, listed, suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecBlock:
    """SQL that is sent as one message: one or more statements, possibly with transaction control."""

    printed: str
    """The SQL as isolationtester prints it, with the line breaks around it."""
    mark: Mark

    @property
    def text(self) -> str:
        """The SQL, empty if there is none."""
        return self.printed.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecStep:
    """A step of a session."""

    name: str
    mark: Mark
    block: SpecBlock
    comments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecSession:
    """A session and its steps."""

    name: str
    mark: Mark
    setup: SpecBlock | None
    steps: tuple[SpecStep, ...]
    teardown: SpecBlock | None
    comments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """A condition that delays the report that a step has completed."""

    kind: Literal["once", "other", "notices"]
    """In the spec ``(*)``, ``(step)`` or ``(step notices n)``."""
    mark: Mark
    step: str = ""
    notices: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A step in a permutation."""

    step: str
    mark: Mark
    blockers: tuple[Blocker, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Permutation:
    """One order of steps."""

    mark: Mark
    launches: tuple[Launch, ...]
    comments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A complete spec."""

    setup: tuple[SpecBlock, ...]
    teardown: SpecBlock | None
    sessions: tuple[SpecSession, ...]
    permutations: tuple[Permutation, ...]
    """If empty, every order of all steps that keeps the order of each session."""

    @property
    def steps(self) -> dict[str, tuple[SpecSession, SpecStep]]:
        """Every step by its name, with its session."""
        return {step.name: (each, step) for each in self.sessions for step in each.steps}


def parse(text: str, document: Document) -> Spec:
    """Return the spec in `text`, and add its errors to `document`."""
    spec = _SpecParser(text, document).spec()
    if not document.errors:
        _check(spec, document)
    return spec


class _MistakeError(Exception):
    """A syntax error that has been recorded; parsing continues at the next keyword that begins a part."""


class _SpecParser:
    def __init__(self, text: str, document: Document) -> None:
        self._document = document
        self._tokens: Iterator[SpecToken] = tokens(text, document)
        self._next = next(self._tokens)

    def spec(self) -> Spec:
        setup: list[SpecBlock] = []
        teardowns: list[SpecBlock] = []
        sessions: list[SpecSession] = []
        permutations: list[Permutation] = []
        while self._next.kind != "end":
            try:
                if self._is("setup"):
                    self._in_time(sessions or teardowns, "setup", "the sessions and the teardown")
                    setup.append(self._block("setup"))
                elif self._is("teardown"):
                    self._in_time(sessions, "teardown", "the sessions")
                    if teardowns:
                        message = "there is one 'teardown'; this is another"
                        self._document.error(self._next.mark, message)
                    teardowns.append(self._block("teardown"))
                elif self._is("session"):
                    self._in_time(permutations, "session", "the permutations")
                    sessions.append(self._session())
                elif self._is("permutation"):
                    permutations.append(self._permutation())
                else:
                    raise self._unexpected("setup, teardown, session or permutation")
            except _MistakeError:
                self._skip()
        if not sessions and not self._document.errors:
            self._document.error(self._next.mark, "a spec needs a session with a step")
        return Spec(
            setup=tuple(setup),
            teardown=teardowns[0] if teardowns else None,
            sessions=tuple(sessions),
            permutations=tuple(permutations),
        )

    # -- one word ----------------------------------------------------------------------------------

    def _is(self, word: str) -> bool:
        return self._next.kind == "keyword" and self._next.text == word

    def _advance(self) -> SpecToken:
        taken = self._next
        if taken.kind != "end":
            self._next = next(self._tokens)
        return taken

    def _take(self, kind: Kind, requested: str) -> SpecToken:
        if self._next.kind != kind:
            raise self._unexpected(requested)
        return self._advance()

    def _sign(self, sign: str) -> bool:
        if self._next.kind == "sign" and self._next.text == sign:
            self._advance()
            return True
        return False

    def _unexpected(self, requested: str) -> _MistakeError:
        word = self._next
        message = f"expected {requested}, not {word}"
        if word.kind == "keyword" and requested.startswith("a name for"):
            message += f'; put it in double quotes: "{word.text}"'
            self._advance()
        elif word.kind == "name":
            message += suggestion(word.text.lower(), KEYWORDS)
        self._document.error(word.mark, message)
        return _MistakeError()

    def _skip(self, *more: str) -> None:
        """Advance to the beginning of the next session or permutation, or to one of the keywords in `more`."""
        words = ("session", "permutation", *more)
        while self._next.kind != "end" and not any(self._is(word) for word in words):
            self._advance()

    def _in_time(self, later: object, word: str, what: str) -> None:
        if later:
            self._document.error(self._next.mark, f"'{word}' stands before {what}")

    # -- parts -------------------------------------------------------------------------------------

    def _block(self, word: str) -> SpecBlock:
        self._advance()
        result = self._take("block", f"a block of SQL in braces after '{word}'")
        return SpecBlock(printed=result.text, mark=result.mark)

    def _session(self) -> SpecSession:
        comments = self._advance().comments
        name = self._take("name", "a name for the session")
        setup = self._block("setup") if self._is("setup") else None
        steps: list[SpecStep] = []
        while self._is("step"):
            try:
                steps.append(self._step())
            except _MistakeError:
                self._skip("step", "teardown")
        teardown = self._block("teardown") if self._is("teardown") else None
        if not steps and not self._document.errors:
            raise self._unexpected(f"a step of session '{name.text}'")
        return SpecSession(
            name=name.text,
            mark=name.mark,
            setup=setup,
            steps=tuple(steps),
            teardown=teardown,
            comments=comments,
        )

    def _step(self) -> SpecStep:
        comments = self._advance().comments
        name = self._take("name", "a name for the step")
        block = self._take("block", f"the SQL of step '{name.text}' in braces")
        return SpecStep(
            name=name.text,
            mark=name.mark,
            block=SpecBlock(printed=block.text, mark=block.mark),
            comments=comments,
        )

    def _permutation(self) -> Permutation:
        begun = self._advance()
        launches: list[Launch] = []
        while self._next.kind == "name":
            step = self._advance()
            launches.append(Launch(step=step.text, mark=step.mark, blockers=self._blockers()))
        if not launches:
            raise self._unexpected("a name of a step")
        return Permutation(mark=begun.mark, launches=tuple(launches), comments=begun.comments)

    def _blockers(self) -> tuple[Blocker, ...]:
        if not self._sign("("):
            return ()
        results = [self._blocker()]
        while self._sign(","):
            results.append(self._blocker())
        if not self._sign(")"):
            raise self._unexpected("',' or ')'")
        return tuple(results)

    def _blocker(self) -> Blocker:
        mark = self._next.mark
        if self._sign("*"):
            return Blocker(kind="once", mark=mark)
        step = self._take("name", "a name of a step, or '*'")
        if not self._is("notices"):
            return Blocker(kind="other", mark=mark, step=step.text)
        self._advance()
        count = self._take("number", "how many notices")
        return Blocker(kind="notices", mark=mark, step=step.text, notices=int(count.text))


# -- meaning ---------------------------------------------------------------------------------------


def _check(spec: Spec, document: Document) -> None:
    """Record the errors that isolationtester's check_testspec reports."""
    sessions: dict[str, Mark] = {}
    steps: dict[str, Mark] = {}
    for session in spec.sessions:
        _once(sessions, "session", session.name, session.mark, document)
        for step in session.steps:
            _once(steps, "step", step.name, step.mark, document)
    for permutation in spec.permutations:
        _check_permutation(permutation, spec, document)


def _once(seen: dict[str, Mark], what: str, name: str, mark: Mark, document: Document) -> None:
    if name in seen:
        document.error(mark, f"{what} '{name}' is already at line {seen[name].line}")
    else:
        seen[name] = mark


def _check_permutation(permutation: Permutation, spec: Spec, document: Document) -> None:
    steps = spec.steps
    launched = [launch.step for launch in permutation.launches]
    for launch in permutation.launches:
        if launch.step not in steps:
            hint = suggestion(launch.step, steps)
            document.error(launch.mark, f"no step '{launch.step}'{hint}")
            continue
        for blocker in launch.blockers:
            if blocker.kind == "once":
                continue
            if blocker.step not in launched:
                hint = suggestion(blocker.step, launched)
                document.error(
                    blocker.mark,
                    f"'{launch.step}' cannot be held back for '{blocker.step}', which is not in this "
                    f"permutation ({listed(dict.fromkeys(launched))}){hint}",
                )
            elif blocker.step in steps and steps[blocker.step][0] is steps[launch.step][0]:
                document.error(
                    blocker.mark,
                    f"'{launch.step}' cannot be held back for '{blocker.step}': both are of session "
                    f"'{steps[launch.step][0].name}'",
                )
