"""Connection strings of a command line: checked before anything reads them, and never quoted.

Knows neither the commands nor what is at the other end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import typer

#: Of whatever looks like a URL, up to its last @ and even if it is none; of ``key=value`` pairs and queries.
_PASSWORDS = (
    re.compile(r"(?P<before>://[^:/@\n]*:).*(?=@)"),
    re.compile(r"(?P<before>password\s*=\s*)(?:'(?:\\.|[^'\\])*'|[^\s&]+)", re.IGNORECASE),
)
#: What names have not, and DSNs have before their first equals sign.
_OF_DSNS = re.compile(r"[:/@'\s]")


def parse_nodes(given: Iterable[str], option: str = "--node") -> dict[str, str]:
    """``NAME=DSN`` options as a mapping; DSNs as libpq takes them.

    Raises:
        typer.BadParameter: what is none, or names a node twice. The text quotes nothing of a DSN.
    """
    results: dict[str, str] = {}
    for name, dsn in node_dsns(given, option):
        if name in results:
            raise typer.BadParameter(f"node {name!r} is given twice", param_hint=option)
        results[name] = dsn
    return results


def node_dsns(given: Iterable[str], option: str = "--node") -> list[tuple[str, str]]:
    """As `parse_nodes`, of options that may name a node twice."""
    return [
        (name, _checked(dsn, option, f"node {name!r}: "))
        for name, dsn in named(given, option, "NAME=DSN, as in pub=postgresql://host/db")
    ]


def named(given: Iterable[str], option: str, form: str) -> list[tuple[str, str]]:
    """``NAME=TEXT`` options as pairs.

    Raises:
        typer.BadParameter: one has no text, or what stands before it cannot be the name of a node.
    """
    from twopc.names import NODE_NAMES, is_node_name

    results: list[tuple[str, str]] = []
    for each in given:
        name, _, text = each.partition("=")
        if not is_node_name(name):
            # it may be a DSN, up to the first of its equals signs: nothing of that is quoted
            problem = "the name of a node is missing"
            if name and not _OF_DSNS.search(name):
                problem = f"{name!r} cannot be the name of a node, which is {NODE_NAMES}"
            raise typer.BadParameter(f"{problem}: write {form}", param_hint=option)
        if not text:
            raise typer.BadParameter(f"{name!r}: write {form}", param_hint=option)
        results.append((name, text))
    return results


def checked_dsn(given: str) -> str:
    """Of an option that is a DSN: as libpq takes it; nothing, if it is not given.

    Raises:
        typer.BadParameter: it is none. The text quotes nothing of it.
    """
    return _checked(given, None, "") if given else given


def checked_server(given: str | None) -> str | None:
    """Of an option that says which server, see `twopc.server.choice`: a DSN, if it is one, as libpq takes it."""
    if not given:
        return given
    from twopc.server.choice import kind_of  # with all that starts servers

    return checked_dsn(given) if kind_of(given) == "url" else given


def without_passwords(text: str) -> str:
    """Text for people that may quote a command line, as those of Typer and of tracebacks do."""
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
