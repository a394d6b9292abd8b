"""Connection strings of a command line: checked before use, and never quoted in messages.

This module depends on no command and connects to no server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import typer

#: Passwords in texts that resemble a URL, up to their last @, and in ``key=value`` pairs and queries.
_PASSWORDS = (
    re.compile(r"(?P<before>://[^:/@\n]*:).*(?=@)"),
    re.compile(r"(?P<before>password\s*=\s*)(?:'(?:\\.|[^'\\])*'|[^\s&]+)", re.IGNORECASE),
)
#: Characters that DSNs may have before their first equals sign, and names never have.
_OF_DSNS = re.compile(r"[:/@'\s]")


def parse_nodes(given: Iterable[str], option: str = "--node") -> dict[str, str]:
    """Return ``NAME=DSN`` options as a mapping; DSNs have the format of libpq.

    Raises:
        typer.BadParameter: an option is invalid, or names a node twice. The message quotes no part of a DSN.
    """
    results: dict[str, str] = {}
    for name, dsn in node_dsns(given, option):
        if name in results:
            raise typer.BadParameter(f"node {name!r} is given twice", param_hint=option)
        results[name] = dsn
    return results


def node_dsns(given: Iterable[str], option: str = "--node") -> list[tuple[str, str]]:
    """Return ``NAME=DSN`` options as pairs, in which a node may occur twice; see `parse_nodes`."""
    return [
        (name, _checked(dsn, option, f"node {name!r}: "))
        for name, dsn in named(given, option, "NAME=DSN, as in pub=postgresql://host/db")
    ]


def named(given: Iterable[str], option: str, form: str) -> list[tuple[str, str]]:
    """Return ``NAME=TEXT`` options as pairs.

    Raises:
        typer.BadParameter: the text is missing, or the name is not valid for a node.
    """
    from twopc.names import NODE_NAMES, is_node_name

    results: list[tuple[str, str]] = []
    for each in given:
        name, _, text = each.partition("=")
        if not is_node_name(name):
            # the text may be the part of a DSN before its first equals sign, which must not be quoted
            problem = "the name of a node is missing"
            if name and not _OF_DSNS.search(name):
                problem = f"{name!r} cannot be the name of a node, which is {NODE_NAMES}"
            raise typer.BadParameter(f"{problem}: write {form}", param_hint=option)
        if not text:
            raise typer.BadParameter(f"{name!r}: write {form}", param_hint=option)
        results.append((name, text))
    return results


def checked_dsn(given: str) -> str:
    """Return the DSN of an option if it is valid for libpq; an omitted option is returned unchanged.

    Raises:
        typer.BadParameter: the DSN is invalid. The message quotes no part of it.
    """
    return _checked(given, None, "") if given else given


def checked_server(given: str | None) -> str | None:
    """Return the value of an option that selects a server (see `twopc.server.choice`); a DSN is checked first."""
    if not given:
        return given
    from twopc.server.choice import kind_of  # imports all modules that start servers

    return checked_dsn(given) if kind_of(given) == "url" else given


def without_passwords(text: str) -> str:
    """Return a text without the passwords of connection strings, as messages of Typer may quote a command line."""
    for pattern in _PASSWORDS:
        text = pattern.sub(r"\g<before>***", text)
    return text


def _checked(dsn: str, option: str | None, where: str) -> str:
    from twopc.errors import ServerError
    from twopc.server.connection_strings import plain_dsn

    try:
        return plain_dsn(dsn)
    except ServerError as error:
        raise typer.BadParameter(f"{where}{error}", param_hint=option) from None
