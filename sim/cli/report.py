"""``twopc report``: a run that is over, from its history, in any form."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sim.report.history import Record

_HISTORY = "history.jsonl"


def report(
    run: Annotated[
        str,
        typer.Argument(
            help="A run's directory, its history.jsonl, or a scenario's name: then its latest run.",
        ),
    ],
    order: Annotated[str, typer.Option(help="Only the order of this name.")] = "",
    html: Annotated[
        bool, typer.Option("--html", help="One page; on a terminal written to report.html.")
    ] = False,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Markdown with Mermaid sequence diagrams.")
    ] = False,
    junit: Annotated[bool, typer.Option("--junit", help="JUnit XML.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The verdict.")] = False,
    diagram: Annotated[
        bool, typer.Option("--diagram", help="Sequence diagrams for the terminal.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("-o", metavar="FILE", help="Write there instead of printing.")
    ] = None,
) -> None:
    """Show a run that is over: its timelines, or another form of them."""
    from sim.report.history import by_order, read

    given = {"html": html, "mermaid": mermaid, "junit": junit, "json": as_json, "diagram": diagram}
    forms = [name for name, wanted in given.items() if wanted]
    if len(forms) > 1:
        raise typer.BadParameter(f"one form at a time: --{' or --'.join(forms)}")
    history = find(run)
    records = read(history)
    if order:
        names = [name for name, _ in by_order(records)]
        if order not in names:
            known = ", ".join(f"'{name}'" for name in names) or "none"
            raise typer.BadParameter(
                f"no order '{order}' in this run; there is {known}", param_hint="--order"
            )
        records = [record for record in records if record.order in ("", order)]
    form = forms[0] if forms else "timeline"
    if form == "html" and out is None and sys.stdout.isatty():
        out = history.with_name("report.html")
    text = _text(form, records, out)
    if out is not None:
        _write(out, text)
        print(out, file=sys.stderr)
    else:
        sys.stdout.write(text)


def find(run: str) -> Path:
    """The history that an argument means: a file, a directory, or the latest run of a scenario.

    Raises:
        typer.BadParameter: there is none.
    """
    from sim.report.run_files import ROOT

    places = [Path(run), ROOT / run]
    for place in places:
        for history in (place / _HISTORY, place / "latest" / _HISTORY):
            if history.is_file():
                return history
        if place.is_file():
            return place
    raise typer.BadParameter(
        f"no {_HISTORY} in {places[0]} or {places[1]}/latest; runs are written to {ROOT}",
        param_hint="RUN",
    )


def _text(form: str, records: list[Record], out: Path | None) -> str:
    """The form; what is for a terminal has its colours if it is printed on one."""
    import io

    from sim.report import terminal
    from sim.report.forms import DOCUMENTS, show, show_diagrams

    if form in DOCUMENTS:
        return DOCUMENTS[form](records)
    draw = show_diagrams if form == "diagram" else show
    if out is None:
        draw(records, terminal.console())
        return ""
    text = io.StringIO()
    draw(records, terminal.console(text))
    return text.getvalue()


def _write(path: Path, text: str) -> None:
    from twopc.errors import ConfigurationError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"{path}: cannot write there ({error.strerror}); give another place by -o FILE"
        ) from error
