"""``twopc init``: create a folder with a first scenario, a first test and a table for settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_TABLE = "[tool.twopc]"
_SETTINGS = f"""{_TABLE}
# An option goes before a variable TWOPC_*, and that before what stands here.
# pg = "embedded"     # or a directory of PostgreSQL's programs, or the URL of a server
# seed = 0            # of all chance
# jobs = 1            # orders that are played at once
# timeout = "30s"     # of a step
"""
#: Target of each file, and its name among the starters.
_FILES = {
    "scenarios/lost_update.twopc.yaml": "lost_update.twopc.yaml",
    "tests/test_lost_update.py": "test_lost_update.txt",
}


def init(
    folder: Annotated[Path, typer.Argument(help="Created if it does not exist.")] = Path(),
) -> None:
    """Create a scenario, a test of it, and a table for settings in pyproject.toml.

    Existing files are left unchanged.
    """
    from importlib.resources import files

    from twopc.errors import ConfigurationError

    starters = files("twopc.sim.cli.starter")
    try:
        for place, starter in _FILES.items():
            _write(folder / place, starters.joinpath(starter).read_text(encoding="utf-8"))
        _add_table(folder / "pyproject.toml")
    except OSError as error:
        raise ConfigurationError(
            f"{error.filename or folder}: cannot write there ({error.strerror}); name another folder"
        ) from error
    inside = "" if folder == Path() else f"cd {folder} && "
    print(f"next:  {inside}twopc run scenarios")
    print("       twopc explain lost-update        the story of that run, in sentences")
    print("       twopc step scenarios/lost_update.twopc.yaml")
    print(
        "       python -m pytest tests           the same from a test: pip install 'twopc[pytest]'"
    )


def _write(path: Path, text: str) -> None:
    if path.exists():
        print(f"left   {path} (it is there already)")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(f"wrote  {path}")


def _add_table(path: Path) -> None:
    """Append the project's table, unless the file has one."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if any(line.strip().startswith(_TABLE) for line in text.splitlines()):
        print(f"left   {path} (it has {_TABLE} already)")
        return
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    path.write_text(f"{text}{gap}{_SETTINGS}", encoding="utf-8")
    print(f"wrote  {path} ({_TABLE})")
