"""Which scenario files a command line means."""

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
    """The files named, and those in the folders named; ``-`` is standard input.

    A path below ``scenarios`` that is not there means the one that is installed.

    Raises:
        ScenarioError: nothing is there.
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
    """The scenarios of the files and folders named.

    Raises:
        ScenarioError: what is wrong with any of them, of all that are.
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
