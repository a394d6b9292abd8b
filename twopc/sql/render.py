"""The only reader of ``.sql`` files: load, fill, check, return text.

The returned text is the one that golden tests compare and that is executed; there is no other rendering. A file
contains no conditions and no loops: its ``{holes}`` take identifiers, literals or fragments, and Python decides
which file is used.
"""

from __future__ import annotations

import functools
from importlib import resources

from psycopg import sql

from twopc.errors import ConfigurationError

#: Every function body is enclosed in two of these tags. Filled text must not contain the tag: a column of that
#: name would end the body early, and the rest would be read as SQL.
BODY_TAG = "$msrepl$"


@functools.cache
def _source(package: str, name: str) -> str:
    return resources.files(package).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


def render(package: str, name: str, /, **holes: sql.Composable) -> str:
    """Return the text of ``<package>/sql/<name>.sql`` with its holes filled.

    Raises:
        ConfigurationError: a filled text contains the tag that delimits function bodies.
    """
    return compose(package, name, **holes).as_string(None)


def compose(package: str, name: str, /, **holes: sql.Composable) -> sql.Composed:
    """Return the filled text, as `render` does, as a fragment to be filled into another file."""
    for hole, value in holes.items():
        if BODY_TAG in value.as_string(None):
            raise ConfigurationError(
                f"{package}/sql/{name}.sql: the text for {hole!r} contains {BODY_TAG}, which ends a "
                "function body; rename the object that brings it in"
            )
    return sql.SQL(_source(package, name)).format(**holes)
