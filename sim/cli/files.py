"""Scenario files of a command line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import twopc
from twopc.errors import ScenarioError

if TYPE_CHECKING:
    from twopc.sim.scenario.check import LoadedScenario

SUFFIX = ".twopc.yaml"
#: The scenarios that are installed with the package.
SHIPPED = Path(twopc.__file__).parent / "scenarios"


def scenario_files(paths: Iterable[Path]) -> list[Path]:
    """Return the given files, and the scenario files in the given folders; ``-`` is standard input.

    A path below ``scenarios`` that does not exist stands for the installed one.

    Raises:
        ScenarioError: a path does not exist, or a folder has no scenario files.
    """
    results: list[Path] = []
    for given in paths:
        path = given
        if not path.exists() and path.parts[:1] == (SHIPPED.name,):
            path = SHIPPED.parent / path
        if path.is_dir():
            inside = sorted(path.rglob(f"*{SUFFIX}"))
            if not inside:
                raise ScenarioError(f"{path}: no scenario files (*{SUFFIX}) in this folder")
            results += inside
        elif path.exists() or path == Path("-"):
            results.append(path)
        else:
            raise ScenarioError(f"{given}: no such file or folder")
    return list(dict.fromkeys(results))


def load_all(paths: Iterable[Path]) -> list[LoadedScenario]:
    """Return the scenarios of the given files and folders.

    Raises:
        ScenarioError: a scenario is invalid; the message lists the errors of all files.
    """
    from twopc.sim.scenario.check import load

    loaded, wrong = [], []
    for path in scenario_files(paths):
        try:
            loaded.append(load(path))
        except ScenarioError as error:
            wrong.append(str(error))
    if wrong:
        raise ScenarioError("\n".join(wrong))
    return loaded
