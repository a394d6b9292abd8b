"""``twopc completion``: the script by which a shell completes commands, options and names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

_HOW = {
    "bash": 'eval "$(twopc completion bash)"   in ~/.bashrc',
    "zsh": 'eval "$(twopc completion zsh)"    in ~/.zshrc, after compinit',
    "fish": "twopc completion fish > ~/.config/fish/completions/twopc.fish",
}


def completion(
    ctx: typer.Context,
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="The shell.")],
) -> None:
    """Print the completion script of a shell; its first lines tell where to install it."""
    from typer.completion import shell_complete

    print(f"# {_HOW[shell]}")
    shell_complete(ctx.find_root().command, {}, "twopc", "_TWOPC_COMPLETE", f"source_{shell}")


def run_names(incomplete: str) -> Iterator[str]:
    """Yield the scenarios that have been run from this folder."""
    from twopc.sim.settings import SettingError, load

    try:
        root = Path(load({}, environment=os.environ, start=Path.cwd()).out)
    except SettingError:
        return
    for latest in sorted(root.glob("*/latest/history.jsonl")):
        name = latest.parent.parent.name
        if name.startswith(incomplete):
            yield name


def stage_names(incomplete: str) -> list[str]:
    """Return the stages on which scenarios can be played."""
    return [name for name in ("postgres", "model", "both") if name.startswith(incomplete)]


def order_names(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """Yield the orders of the scenario files that are on the command line already."""
    for given in _paths(ctx.params):
        for name in _orders(given):
            if name.startswith(incomplete):
                yield name


def _paths(params: dict[str, Any]) -> Iterator[Path]:
    for value in (params.get("paths"), params.get("file")):
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if each is not None:
                yield Path(each)


def _orders(path: Path) -> Iterator[str]:
    """Yield the orders of a file, which is not checked, so that an unfinished file is accepted."""
    from twopc.errors import ScenarioError
    from twopc.sim.scenario import text

    try:
        root = text.read(path).root
    except ScenarioError:
        return
    for order in (root.get("orders") or ()) if root else ():
        if isinstance(order, dict) and isinstance(order.get("name"), str):
            yield order["name"]
