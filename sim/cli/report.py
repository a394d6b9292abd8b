"""``twopc report``: show a finished run from its history, in several forms."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from twopc.sim.cli.completion import run_names

if TYPE_CHECKING:
    from twopc.sim.report.history import HistoryRecord

_HISTORY = "history.jsonl"


def report(
    run: Annotated[
        str,
        typer.Argument(
            help="Directory of a run, its history.jsonl, or the name of a scenario, which stands for its latest run.",
            autocompletion=run_names,
        ),
    ],
    order: Annotated[str, typer.Option(help="Show only this order.")] = "",
    html: Annotated[
        bool, typer.Option("--html", help="One HTML page; on a terminal, written to report.html.")
    ] = False,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Markdown with Mermaid sequence diagrams.")
    ] = False,
    junit: Annotated[bool, typer.Option("--junit", help="JUnit XML.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The verdict as JSON.")] = False,
    diagram: Annotated[
        bool, typer.Option("--diagram", help="Sequence diagrams for the terminal.")
    ] = False,
    form_: Annotated[
        Literal["elle", "elle-edn"] | None,
        typer.Option("--format", help="Format of Elle: JSON lines or EDN."),
    ] = None,
    model: Annotated[
        Literal["list-append", "rw-register"], typer.Option(help="The model of Elle.")
    ] = "list-append",
    out: Annotated[
        Path | None,
        typer.Option("-o", metavar="FILE", help="Write to this file instead of standard output."),
    ] = None,
) -> None:
    """Show a finished run: its timelines, or another form of them."""
    from twopc.sim.report.history import read

    given = {"html": html, "mermaid": mermaid, "junit": junit, "json": as_json, "diagram": diagram}
    forms = [name for name, requested in given.items() if requested]
    asked = [f"--{name}" for name in forms] + ([f"--format {form_}"] if form_ else [])
    if len(asked) > 1:
        raise typer.BadParameter(f"one form at a time: {' or '.join(asked)}")
    history = find(run)
    records = chosen(read(history), order)
    form = form_ or (forms[0] if forms else "timeline")
    if form == "html" and out is None and sys.stdout.isatty():
        out = history.with_name("report.html")
    text = _text(form, records, out, model)
    if out is not None:
        write(out, text)
        print(out, file=sys.stderr)
    else:
        sys.stdout.write(text)


def chosen(records: list[HistoryRecord], order: str) -> list[HistoryRecord]:
    """Return the records of the run itself, and of the order or group of orders with that name; all if it is empty.

    Raises:
        typer.BadParameter: there is no such order.
    """
    from twopc.sim.report.history import by_order

    if not order:
        return records
    groups = {name: _group(of) for name, of in by_order(records)}
    requested = {name for name, group in groups.items() if order in (name, group)}
    if not requested:
        known = ", ".join(f"'{name}'" for name in groups) or "none"
        raise typer.BadParameter(
            f"no order '{order}' in this run; there is {known}", param_hint="--order"
        )
    return [record for record in records if not record.order or record.order in requested]


def _group(records: list[HistoryRecord]) -> str:
    """Return the group of the order with these records; for a listed order, its own name."""
    data = next((record.data or {} for record in records if record.kind == "order"), {})
    return str(data.get("group", ""))


def find(run: str) -> Path:
    """Return the history that an argument names: a file, a directory, or the latest run of a scenario.

    Raises:
        typer.BadParameter: there is none.
    """
    from twopc.sim.cli.options import settings

    root = Path(settings().out)
    places = [Path(run), root / run]
    for place in places:
        for history in (place / _HISTORY, place / "latest" / _HISTORY):
            if history.is_file():
                return history
        if place.is_file():
            return place
    raise typer.BadParameter(
        f"no {_HISTORY} in {places[0]} or {places[1]}/latest; runs are written to {root}",
        param_hint="RUN",
    )


def _text(
    form: str,
    records: list[HistoryRecord],
    out: Path | None,
    model: Literal["list-append", "rw-register"],
) -> str:
    """Return the report in a form; forms for a terminal are printed with colours instead if no file is given."""
    import io

    from twopc.sim.report import terminal
    from twopc.sim.report.forms import DOCUMENTS, show, show_diagrams

    if form in ("elle", "elle-edn"):
        from twopc.sim.report import elle

        return (elle.as_edn if form == "elle-edn" else elle.as_elle)(records, model)
    if form in DOCUMENTS:
        return DOCUMENTS[form](records)
    draw = show_diagrams if form == "diagram" else show
    if out is None:
        draw(records, terminal.console())
        return ""
    text = io.StringIO()
    draw(records, terminal.console(text))
    return text.getvalue()


def write(path: Path, text: str) -> None:
    """Write a requested file.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    from twopc.errors import ConfigurationError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"{path}: cannot write there ({error.strerror}); give another place by -o FILE"
        ) from error
