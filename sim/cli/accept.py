"""Option ``--accept``: writes the outcomes into the file as expectations, and shows the changes."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from twopc.sim.scenario.check import LoadedScenario
    from twopc.sim.scenario.judging import FailedCheck

#: Values of `CI` that mean that this is no CI.
_NOT_CI = ("", "0", "false", "no")
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def refuse_to_accept(paths: Sequence[Path], environment: Mapping[str, str]) -> None:
    """Refuse ``--accept`` in CI, where the changes would go unseen, and for input that is no writable file.

    Raises:
        typer.BadParameter: ``CI`` is set, or there is no scenario file to change.
    """
    if environment.get("CI", "").lower() not in _NOT_CI:
        raise typer.BadParameter(
            "refused where CI is set: expectations are changed where a person sees the difference",
            param_hint="--accept",
        )
    for path in paths:
        if str(path) == "-" or path.suffix == ".spec":
            raise typer.BadParameter(
                f"{path}: there is no scenario file to be changed", param_hint="--accept"
            )


def accept(loaded: LoadedScenario, failures: Sequence[FailedCheck], out: Console) -> bool:
    """Change the file so that it expects the outcomes, and print the changes. Return whether the file was changed."""
    from twopc.errors import ConfigurationError, ScenarioError
    from twopc.sim.scenario.accept import accepted
    from twopc.sim.scenario.check import parse

    document = loaded.document
    path = Path(document.path)
    try:
        text = accepted(document, failures)
    except ScenarioError as error:
        print(f"{error}\n{path}: left as it is", file=sys.stderr)
        return False
    try:
        parse(text, document.path)
    except ScenarioError as error:
        print(f"not accepted: {path} would not be right any more\n{error}", file=sys.stderr)
        return False
    try:
        if path.read_bytes().decode("utf-8-sig") != document.text:
            print(f"not accepted: {path} has been changed since it was read", file=sys.stderr)
            return False
        path.write_bytes(text.encode())
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written ({error.strerror})") from error
    _show(document.text, text, document.path, out)
    return True


def _show(before: str, after: str, name: str, out: Console) -> None:
    from rich.text import Text

    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), name, f"{name} (accepted)", lineterm="", n=1
    )
    for line in lines:
        out.print(Text(line, style=_STYLES.get(line[:1], "")), soft_wrap=True)
