"""The command ``twopc``: one module a command, and one place where exceptions become exit codes.

Commands import what they need when they run, so that ``--help`` and ``check`` stay quick.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from sim.cli.agent import agent
from sim.cli.check import check
from sim.cli.distribution import browse, status, sync, tracer, validate
from sim.cli.exits import EXIT_HELP, UNREAD, exit_code
from sim.cli.operate import activate, clean, doctor, indoubt, recover, regenerate, script
from sim.cli.report import report
from sim.cli.run import run


class _Commands(TyperGroup):
    """The commands, which end quietly once nobody reads them, as in ``twopc run … | head``."""

    def invoke(self, ctx: Any) -> Any:
        try:
            try:
                result = super().invoke(ctx)
            except typer.Exit:
                sys.stdout.flush()  # what is held back must meet the closed pipe here, not at exit
                raise
            sys.stdout.flush()
            return result
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(UNREAD) from None


app = typer.Typer(
    cls=_Commands,
    name="twopc",
    help="Immediate-updating replication on PostgreSQL two-phase commit.\n\n" + EXIT_HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"twopc {version('twopc')}")
        raise typer.Exit


@app.callback()
def settings(
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        typer.Option(help="Events of this level and above go to standard error."),
    ] = "warning",
    log_format: Annotated[Literal["text", "json"], typer.Option(help="How they look.")] = "text",
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Say the version and leave."
        ),
    ] = False,
) -> None:
    """Settings of every command."""
    from twopc import log

    log.configure(level=log_level, layout=log_format)


app.command()(run)
app.command()(check)
app.command()(report)
app.command()(doctor)
app.command()(indoubt)
app.command()(recover)
app.command()(regenerate)
app.command()(activate)
app.command()(script)
app.command()(clean)
app.add_typer(agent, name="agent")
app.command()(status)
app.command()(browse)
app.command()(sync)
app.command()(validate)
app.add_typer(tracer, name="tracer")


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        app()
    except Exception as error:
        sys.exit(exit_code(error))
