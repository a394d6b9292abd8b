"""The project as one archive that executors import from."""

from __future__ import annotations

import zipfile
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

#: Kinds of files that are; what a compiler or an editor left is not.
_KINDS = (".py", ".sql", ".json", ".html", ".css", ".js", ".yaml", ".txt", ".typed")
#: The same sources make the same bytes: no file's own time is kept.
_TIME = (1980, 1, 1, 0, 0, 0)


def pack(target: Path) -> Path:
    """Write the project's package as a zip; the same sources give the same bytes.

    Executors import from it, and SQL texts are read from it. What the project requires is not in it:
    executors' Python must have that.

    Returns:
        The target.
    """
    members = sorted(_members(files("twopc"), "twopc"))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in members:
            entry = zipfile.ZipInfo(name, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, file.read_bytes())
    return target


def _members(folder: Traversable, name: str) -> list[tuple[str, Traversable]]:
    """The files below a package, by their places in the zip."""
    results = []
    for each in folder.iterdir():
        inner = f"{name}/{each.name}"
        if each.is_dir() and each.name != "__pycache__":
            results += _members(each, inner)
        elif each.name.endswith(_KINDS):
            results.append((inner, each))
    return results
