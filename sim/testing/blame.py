"""The place of an error in a user's code: file, line, statement, and the server's message.

The module knows tracebacks, and the attributes with which drivers and SQLAlchemy describe a statement. It runs in
processes of other programs too, and imports only the standard library.
"""

from __future__ import annotations

import linecache
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

#: Maximum numbers of lines of a statement that are shown, and of characters of each line.
_LINES = 4
_WIDTH = 160
_LIBRARIES = tuple(
    str(Path(sysconfig.get_path(name)).resolve())
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_OURS = str(Path(__file__).resolve().parents[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """An error message with the place of the error."""

    message: str
    file: str = ""
    line: int = 0
    """Line number from 1; 0: unknown."""
    column: int = 0
    """Column number from 1; 0: unknown."""
    statement: str = ""

    def text(self) -> str:
        """Return at most eight lines: place and message, the line in the file, the statement."""
        wording = self.message.strip().splitlines() or [""]
        parts = (_shown(self.file), self.line, self.column)
        place = ":".join(str(part) for part in parts if part)
        lines = [f"{place}: {wording[0]}" if place else wording[0]]
        source = linecache.getline(self.file, self.line).rstrip() if self.line else ""
        if source:
            lines.append(f"  {self.line:>4} | {source[:_WIDTH]}")
        lines += [f"  {each.strip()[:_WIDTH]}" for each in wording[1:2]]
        statement = self.statement.strip().splitlines()
        if statement and self.statement.strip() not in source:
            shown = [each.rstrip()[:_WIDTH] for each in statement[:_LINES]]
            more = ["…"] if len(statement) > _LINES else []
            lines += [f"  statement: {shown[0]}", *(f"    {each}" for each in [*shown[1:], *more])]
        return "\n".join(lines)


def blame(error: BaseException, *, statement: str = "") -> Blame:
    """Return the place from which an exception comes.

    Args:
        statement: the statement that was sent last, if known; a statement that the exception names takes
            precedence.
    """
    text = report_of(error)
    message = f"{type(error).__name__}: {error}"
    if text.message:
        message = f"{text.message} ({text.sqlstate})\n{text.detail or text.hint}"
    file, line = place_of(error)
    report = _first(error, "statement") or statement
    return Blame(message=message.rstrip(), file=file, line=line, statement=report)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverReport:
    """A server's error message, independent of driver and ORM; empty if the error is not a server's."""

    message: str
    sqlstate: str
    detail: str
    hint: str


def report_of(error: BaseException) -> DriverReport:
    """Return a server's error message, from psycopg's `diag` or from asyncpg's attributes."""
    diag = next((d for each in _chain(error) if (d := getattr(each, "diag", None))), None)
    state = _first(error, "sqlstate")
    if diag is None:
        message = next((str(e) for e in _chain(error) if getattr(e, "sqlstate", None)), "")
        return DriverReport(
            message=message,
            sqlstate=state,
            detail=_first(error, "detail") if state else "",
            hint=_first(error, "hint") if state else "",
        )
    return DriverReport(
        message=diag.message_primary or "",
        sqlstate=state,
        detail=diag.message_detail or "",
        hint=diag.message_hint or "",
    )


def _first(error: BaseException, attribute: str) -> str:
    """Return the first non-empty text value of an attribute in an exception's chain of causes."""
    values = (getattr(each, attribute, None) for each in _chain(error))
    return next((value for value in values if value and isinstance(value, str)), "")


def place_of(error: BaseException) -> tuple[str, int]:
    """Return the innermost line of the traceback outside libraries; for a syntax error, its own place."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno or 0
    results = ("", 0)
    for file, line in _frames(error.__traceback__):
        if not _is_library(file):
            results = (str(Path(file).resolve()), line)
    if not results[0] and error.__cause__ is not None:
        return place_of(error.__cause__)
    return results


def own_trace(error: BaseException) -> TracebackType | None:
    """Return the traceback from its first line outside libraries on."""
    trace = error.__traceback__
    while trace is not None and _is_library(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        original = getattr(error, "orig", None)  # SQLAlchemy's name for the driver's
        error = original if isinstance(original, BaseException) else error.__cause__


def _frames(trace: TracebackType | None) -> Iterator[tuple[str, int]]:
    while trace is not None:
        yield trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next


def _is_library(file: str) -> bool:
    if file.startswith("<"):
        return True
    path = Path(file).resolve()
    if {"site-packages", "dist-packages"} & {*path.parts}:
        return True
    return str(path).startswith((*_LIBRARIES, f"{_OURS}/sim/", f"{_OURS}/twopc/"))


def _shown(file: str) -> str:
    """Return a path relative to the working directory, if it is below it."""
    try:
        return file and str(Path(file).resolve().relative_to(Path.cwd()))
    except ValueError:
        return file
