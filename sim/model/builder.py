"""SQL text from a specification, and errors that name the place in the specification which a node refuses."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from twopc.sim.model.values import SqlError, TableSpec, UnsupportedError


class BuildError(Exception):
    """A node refuses a part of the specification, so that the model cannot be used."""

    def __init__(self, path: tuple[str | int, ...], error: SqlError) -> None:
        super().__init__(f"{error.message} ({error.sqlstate})")
        self.path = path
        """Place in the specification: ``("tables", "account", "rows", 0)``."""
        self.error = error


@contextmanager
def blaming(*path: str | int) -> Generator[None]:
    """Within the block, attribute errors of a node to `path` in the specification."""
    try:
        yield
    except SqlError as error:
        raise BuildError(path, error) from error
    except UnsupportedError as error:
        error.path = path
        raise


def create_text(table: TableSpec) -> str:
    """Return the CREATE TABLE statement of a table."""
    parts = [f'"{name}" {text}' for name, text in table.columns.items()]
    if table.key:
        parts.append(f"primary key ({', '.join(_quoted(name) for name in table.key)})")
    return f"create table {_quoted(table.name)} ({', '.join(parts)})"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
