"""The one reader of ``.sql`` files: load, fill, guard, return text.

The text returned is what golden tests compare and what is executed; there is no second rendering.
A file holds no conditions and no loops: its ``{holes}`` take identifiers, literals or fragments, and
Python decides which file is used.
"""

from __future__ import annotations

import functools
from importlib import resources

from psycopg import sql

from twopc.errors import ConfigurationError

#: Every function body stands between two of these. Filled text must not contain it: a column named
#: so would end the body early and the rest would be read as SQL.
BODY_TAG = "$msrepl$"


@functools.cache
def _source(package: str, name: str) -> str:
    return resources.files(package).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


def render(package: str, name: str, /, **holes: sql.Composable) -> str:
    """The text of ``<package>/sql/<name>.sql`` with its holes filled.

    Raises:
        ConfigurationError: a filled text contains the tag that delimits function bodies.
    """
    return compose(package, name, **holes).as_string(None)


def compose(package: str, name: str, /, **holes: sql.Composable) -> sql.Composed:
    """As `render`, for a fragment that is itself filled into another file."""
    for hole, value in holes.items():
        if BODY_TAG in value.as_string(None):
            raise ConfigurationError(
                f"{package}/sql/{name}.sql: the text for {hole!r} contains {BODY_TAG}, which ends a "
                "function body; rename the object that brings it in"
            )
    return sql.SQL(_source(package, name)).format(**holes)
