"""The command ``twopc``: one module a command, and one place where exceptions become exit codes.

Commands import what they need when they run, so that ``--help`` and ``check`` stay quick.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from twopc.sim.cli.accumulate import accumulate
from twopc.sim.cli.agent import agent
from twopc.sim.cli.archive import archive
from twopc.sim.cli.audit import audit
from twopc.sim.cli.check import check
from twopc.sim.cli.clients import any_client, resolver
from twopc.sim.cli.completion import completion
from twopc.sim.cli.diff import diff
from twopc.sim.cli.distribution import browse, status, sync, tracer, validate
from twopc.sim.cli.exits import EXIT_HELP, INTERRUPTED, UNREAD, exit_code
from twopc.sim.cli.explain import explain
from twopc.sim.cli.import_spec import export_app, import_app
from twopc.sim.cli.init import init
from twopc.sim.cli.listing import list_, show
from twopc.sim.cli.matrix import matrix
from twopc.sim.cli.operate import activate, clean, doctor, indoubt, recover, regenerate, script
from twopc.sim.cli.procedure import procedure
from twopc.sim.cli.publish import article, install, publish, uninstall, unpublish
from twopc.sim.cli.replay import replay
from twopc.sim.cli.report import report
from twopc.sim.cli.run import run
from twopc.sim.cli.schema import schema
from twopc.sim.cli.search import search
from twopc.sim.cli.step import step
from twopc.sim.cli.subscribe import refresh, reinitialise, subscribe, unsubscribe
from twopc.sim.cli.sweep import sweep
from twopc.sim.cli.tour import tour
from twopc.sim.cli.up import down, up
from twopc.sim.cli.watch import watch


class _Commands(TyperGroup):
    """The commands, which end quietly by Ctrl-C, and once nobody reads them, as in ``twopc run … | head``."""

    def invoke(self, ctx: Any) -> Any:
        try:
            try:
                result = super().invoke(ctx)
            except typer.Exit:
                sys.stdout.flush()  # what is held back must meet the closed pipe here, not at exit
                raise
            sys.stdout.flush()
            return result
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
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
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"twopc {version('twopc')}")
        raise typer.Exit


#: These play scenarios: what servers and agents complain of there is in the history, and often meant.
_PLAYING = ("run", "step", "explain", "matrix", "sweep")


@app.callback()
def settings(
    ctx: typer.Context,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None,
        typer.Option(
            help="Least serious events that are told.",
        ),
    ] = None,
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

    usual = "error" if ctx.invoked_subcommand in _PLAYING else "warning"
    log.configure(level=log_level or usual, layout=log_format)


#: In the order of `--help`, each with what is said of it there: playing, looking, beginning, operating.
COMMANDS = (
    (run, "run", "Play scenarios and check what they claim."),
    (check, "check", "Say everything that is wrong with scenario files."),
    (list_, "list", "List scenarios: names, orders, tags, files."),
    (show, "show", "Show what is in a scenario and what playing it takes."),
    (step, "step", "Go through an order by hand: next, back, another way."),
    (explain, "explain", "Tell the story of a run in sentences."),
    (report, "report", "Show a run again: timelines, page, diagrams, JUnit."),
    (diff, "diff", "Say where one run went another way than another."),
    (matrix, "matrix", "Make the table of conflicts and isolation levels."),
    (search, "search", "Search every order and crash of a small scenario."),
    (sweep, "sweep", "Simulate over a grid of parameters and seeds."),
    (init, "init", "Begin: a scenario, a test and a place for settings."),
    (schema, "schema", "Print the JSON Schema of scenario files."),
    (completion, "completion", "Print the completion script of a shell."),
    (tour, "tour", "Meet a first conflict by hand, in ten minutes."),
    (up, "up", "Leave a topology running, for any client."),
    (watch, "watch", "Show live what happens at what `up` runs."),
    (down, "down", "End what `up` has left running."),
    (install, "install", "Make a database a Publisher."),
    (publish, "publish", "Publish a table."),
    (subscribe, "subscribe", "Give a Subscriber everything that is published."),
    (refresh, "refresh", "Give Subscribers what was published since."),
    (reinitialise, "reinitialise", "Copy every row to a Subscriber anew."),
    (unsubscribe, "unsubscribe", "Take a subscription away."),
    (unpublish, "unpublish", "Take an article back."),
    (uninstall, "uninstall", "Take everything of ours out of the nodes."),
    (doctor, "doctor", "Say whether servers are fit, and what to change."),
    (indoubt, "indoubt", "List prepared branches, or force one by hand."),
    (recover, "recover", "Settle what dead coordinators left prepared."),
    (regenerate, "regenerate", "Make triggers and procedures fit an altered table."),
    (activate, "activate", "Activate a subscription again."),
    (resolver, "resolver", "Finish what clients of Subscribers have decided."),
    (script, "script", "Print what makes a Subscriber by hand."),
    (clean, "clean", "Remove what killed runs have left behind."),
    (status, "status", "Say how far log reader and agents are."),
    (browse, "browse", "Print the stored commands readably."),
    (sync, "sync", "Deliver now what is committed at the Publisher."),
    (validate, "validate", "Compare Subscribers' rows with the Publisher's."),
    (audit, "audit", "Check an archive and live tables against each other."),
    (accumulate, "accumulate", "Append what was distributed to an archive."),
    (replay, "replay", "Play an archive again, and say what differs."),
)
GROUPS = (
    (agent, "agent", "Run log reader, distribution agents or cleanup."),
    (article, "article", "Show published tables; change how they travel."),
    (procedure, "procedure", "Publish the execution of routines."),
    (any_client, "any-client", "Let clients without a coordinator write, or not."),
    (tracer, "tracer", "Measure how long a transaction takes to arrive."),
    (archive, "archive", "Look into an archive, or compact it."),
    (import_app, "import", "Make scenarios of isolationtester's specs."),
    (export_app, "export", "Make such specs of scenarios."),
)

for _command, _name, _short in COMMANDS:
    app.command(_name, short_help=_short)(_command)
for _group, _name, _short in GROUPS:
    app.add_typer(_group, name=_name, short_help=_short)


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        app(prog_name="twopc")  # however it was begun: completion knows this name
    except Exception as error:
        sys.exit(exit_code(error))
