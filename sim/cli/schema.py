"""``twopc schema``: the JSON Schema of scenario files, for completion and checks in editors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def schema(
    out: Annotated[
        Path | None,
        typer.Option("-o", metavar="FILE", help="Write to this file instead of standard output."),
    ] = None,
) -> None:
    """Print the JSON Schema of scenario files.

    Editors that speak to yaml-language-server take it by the first line of a scenario:
    # yaml-language-server: $schema=scenario.schema.json
    """
    from importlib.resources import files

    from twopc.sim.cli.report import write

    text = files("twopc.sim.scenario").joinpath("schema.json").read_text(encoding="utf-8")
    if out is None:
        sys.stdout.write(text)
        return
    write(out, text)
    print(f"wrote {out}; a scenario's first line names it:", file=sys.stderr)
    print(f"# yaml-language-server: $schema={out}", file=sys.stderr)
