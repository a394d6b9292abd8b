"""Findings of the doctor, and the notation of remedies.

This module must not depend on what is checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, LiteralString, get_args

from psycopg import sql

Level = Literal["ok", "warning", "error"]
"""ok: no action needed. warning: works, with the drawback named. error: does not work."""

RoleOfNode = Literal["publisher", "subscriber", "distribution"]
#: All roles of nodes.
ROLES: tuple[RoleOfNode, ...] = get_args(RoleOfNode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check of one setting, right or object."""

    level: Level
    what: str
    """The setting, right or object."""
    state: str
    """Its state, and the consequence."""
    remedy: str = ""
    """Statements to run, one per line, or advice; empty if `level` is ok."""


def format_findings(findings: Iterable[Finding]) -> list[str]:
    """Return the findings as lines of text, each followed by its remedy, indented."""
    findings = list(findings)
    width = max((len(finding.what) for finding in findings), default=0)
    lines = []
    for finding in findings:
        lines.append(f"{finding.level:<8} {finding.what:<{width}}  {finding.state}")
        lines += [f"         {line}" for line in finding.remedy.splitlines()]
    return lines


def statement(template: LiteralString, *parts: str | sql.Composable, **named: str) -> str:
    """Return a statement to be run by a user; a string argument is quoted as an identifier."""
    filled = [sql.Identifier(part) if isinstance(part, str) else part for part in parts]
    names = {name: sql.Identifier(part) for name, part in named.items()}
    return sql.SQL(template).format(*filled, **names).as_string(None)


def literal(value: str) -> sql.Literal:
    """Return a value in SQL notation: plain numbers without quotes."""
    return sql.Literal(int(value) if value.isdecimal() else value)


def alter_system(name: LiteralString, value: str, *, restart: bool) -> str:
    """Return the statement that changes a setting of the whole server."""
    line = statement("ALTER SYSTEM SET {} = {};", sql.SQL(name), literal(value))
    return line + (" -- restart" if restart else " SELECT pg_reload_conf();")
