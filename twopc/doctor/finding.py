"""A finding of the doctor, and how remedies are written.

It must not know what is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, LiteralString, get_args

from psycopg import sql

Level = Literal["ok", "warning", "error"]
"""ok: nothing to do. warning: works, with the drawback named. error: does not work."""

RoleOfNode = Literal["publisher", "subscriber", "distribution"]
#: All of them.
ROLES: tuple[RoleOfNode, ...] = get_args(RoleOfNode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    what: str
    """The setting, right or object."""
    state: str
    """What it is, and what that leads to."""
    remedy: str = ""
    """Statements to run, one a line, or advice; empty if `level` is ok."""


def format_findings(findings: Iterable[Finding]) -> list[str]:
    """The findings as lines of text, each followed by its remedy, indented."""
    findings = list(findings)
    width = max((len(finding.what) for finding in findings), default=0)
    lines = []
    for finding in findings:
        lines.append(f"{finding.level:<8} {finding.what:<{width}}  {finding.state}")
        lines += [f"         {line}" for line in finding.remedy.splitlines()]
    return lines


def statement(template: LiteralString, *parts: str | sql.Composable, **named: str) -> str:
    """A statement for people to run; a string that fills a hole is quoted as an identifier."""
    filled = [sql.Identifier(part) if isinstance(part, str) else part for part in parts]
    names = {name: sql.Identifier(part) for name, part in named.items()}
    return sql.SQL(template).format(*filled, **names).as_string(None)


def literal(value: str) -> sql.Literal:
    """A value as it stands in a statement: plain numbers without quotes."""
    return sql.Literal(int(value) if value.isdecimal() else value)


def alter_system(name: LiteralString, value: str, *, restart: bool) -> str:
    """The line that changes a setting of the whole server."""
    line = statement("ALTER SYSTEM SET {} = {};", sql.SQL(name), literal(value))
    return line + (" -- restart" if restart else " SELECT pg_reload_conf();")
