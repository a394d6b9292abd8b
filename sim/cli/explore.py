"""``twopc explore``: a local page on which an interleaving is changed by hand."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twopc.sim.cli.options import Pg, settings

if TYPE_CHECKING:
    from twopc.sim.explore.folder import OpenFolder


def explore(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE|FOLDER]",
            help="A scenario file, or a folder of them. Default: the scenarios that are installed.",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port at 127.0.0.1; 0: any free one.")
    ] = 0,
    opens: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = True,
    present: Annotated[
        bool, typer.Option("--present", help="Large type, and keys for next and back.")
    ] = False,
    lesson: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Begin with a lesson; `twopc lessons` lists them."),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Serve nothing; write a read-only page with every listed order to this folder.",
        ),
    ] = None,
    pg: Pg = None,
) -> None:
    """Explore scenarios in the browser: move steps, switch protections off, look inside; until Ctrl-C.

    The page is served to this machine alone, by a link that holds a secret. A file is written only when you save it.
    """
    from twopc.errors import ScenarioError
    from twopc.sim.cli.files import SHIPPED
    from twopc.sim.explore.folder import OpenFolder

    chosen = settings(pg=pg)
    opened, is_shipped = path or SHIPPED, path is None
    if path is not None and not path.exists() and path.parts[:1] == (SHIPPED.name,):
        opened, is_shipped = SHIPPED.parent / path, True
    if not opened.exists():
        raise ScenarioError(f"{path}: no such file or folder")
    folder = OpenFolder(opened, read_only=is_shipped)
    _check_server(chosen.pg)
    if export is not None:
        _export(folder, export, present=present)
        return
    try:
        from twopc.sim.explore.app import Desk
        from twopc.sim.explore.pool import Workers
        from twopc.sim.explore.web_server import run
    except ModuleNotFoundError as error:
        raise typer.BadParameter(
            f"{error.name} is missing: pip install 'twopc[explore]'"
        ) from error
    if lesson is not None:
        from twopc.sim.explore.lessons.source import lesson as lesson_of

        lesson_of(lesson)  # raises if there is no lesson with that number
    workers = Workers.of(folder, chosen.pg)
    desk = Desk(folder=folder, workers=workers, present=present)
    shown = "" if lesson is None else f"lesson={lesson}"
    run(desk, port=port, opens=opens, tell=_tell, shown=shown)


def _export(folder: OpenFolder, target: Path, *, present: bool) -> None:
    from twopc.sim.explore.static_export import write

    written = write(folder, target, present=present)
    for each in written.unreadable:
        print(f"without its orders: {each}", file=sys.stderr)
    print(
        f"wrote {written.orders} orders; any file server shows them: "
        f"python -m http.server -d {shlex.quote(str(target))}"
    )


def _tell(link: str) -> None:
    print(f"{link}\nCtrl-C ends it.", flush=True)


def _check_server(pg: str) -> None:
    """Raise `ServerError` if the server does not answer, as an open page would report this too late."""
    from twopc.errors import ServerError
    from twopc.server.choice import choose, kind_of

    if pg and kind_of(pg) == "url" and not choose(pg).is_running():
        raise ServerError("the server that --pg names does not answer, or refuses connections")
