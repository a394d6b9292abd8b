"""The command ``twopc``: one module per command, and one place that turns exceptions into exit codes.

A command's module is imported when the command is looked up, and imports what it needs when it runs.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import Annotated, Any, Literal

import typer

from twopc.sim.cli.connection_strings import without_passwords
from twopc.sim.cli.exits import EXIT_HELP, INTERRUPTED, UNREAD, exit_code
from twopc.sim.cli.lazy import LazyGroup
from twopc.sim.cli.signs import replace_missing

_UsageError: Any = typer.BadParameter.__base__  # Typer does not export the class itself

#: Commands in the order of `--help`, each with its place and help text: for playing, showing, starting, and
#: operating; then groups of commands.
_TABLE = {
    "run": ("run:run", "Run scenarios and check their expectations."),
    "check": ("check:check", "Check scenario files without running them."),
    "list": ("listing:list_", "List scenarios: names, orders, tags, files."),
    "show": ("listing:show", "Show the contents of a scenario and what a run requires."),
    "step": ("step:step", "Step through an order by hand: forward, back, elsewhere."),
    "explain": ("explain:explain", "Explain a run in sentences."),
    "explore": ("explore:explore", "Explore scenarios in the browser."),
    "report": ("report:report", "Show a finished run as timeline, page, diagram or JUnit XML."),
    "diff": ("diff:diff", "Compare two runs."),
    "matrix": ("matrix:matrix", "Print a table of conflicts by isolation level."),
    "search": (
        "search:search",
        "Search a scenario for orders and crashes that break an invariant.",
    ),
    "sweep": ("sweep:sweep", "Simulate a scenario over a grid of parameters and seeds."),
    "init": ("init:init", "Create a scenario, a test and a table for settings."),
    "schema": ("schema:schema", "Print the JSON Schema of scenario files."),
    "completion": ("completion:completion", "Print the completion script of a shell."),
    "lessons": ("lessons:lessons", "List the lessons: what each teaches, and how long it takes."),
    "tour": ("tour:tour", "Produce a first conflict by hand, in ten minutes."),
    "up": ("up:up", "Start a topology that stays, for any client."),
    "watch": ("watch:watch", "Monitor the topology that `up` started."),
    "down": ("up:down", "Stop the topology that `up` started."),
    "install": ("publish:install", "Make a database a Publisher."),
    "publish": ("publish:publish", "Publish a table."),
    "subscribe": ("subscribe:subscribe", "Create a subscription to everything that is published."),
    "refresh": ("subscribe:refresh", "Add newly published articles to subscriptions."),
    "reinitialise": ("subscribe:reinitialise", "Copy all rows to a Subscriber again."),
    "unsubscribe": ("subscribe:unsubscribe", "Drop a subscription."),
    "unpublish": ("publish:unpublish", "Drop an article."),
    "uninstall": ("publish:uninstall", "Remove all objects and roles of twopc from the nodes."),
    "doctor": ("operate:doctor", "Check the settings of servers, and print what to change."),
    "indoubt": ("operate:indoubt", "List prepared branches, or commit or roll back one by hand."),
    "recover": ("operate:recover", "Finish transactions of coordinators that have ended."),
    "regenerate": ("operate:regenerate", "Recreate triggers and procedures of an altered table."),
    "activate": ("operate:activate", "Activate a subscription again."),
    "resolver": (
        "clients:resolver",
        "Finish at the Publisher what clients have committed at Subscribers.",
    ),
    "script": ("operate:script", "Print the script that sets up a Subscriber."),
    "clean": ("operate:clean", "Remove servers and databases of runs that were killed."),
    "status": ("distribution:status", "Show the state of the log reader and the agents."),
    "browse": ("distribution:browse", "Print the commands in the distribution database."),
    "sync": ("distribution:sync", "Deliver everything committed at the Publisher."),
    "validate": ("distribution:validate", "Compare Subscribers' rows with the Publisher's."),
    "audit": ("audit:audit", "Check an archive against live tables."),
    "accumulate": ("accumulate:accumulate", "Append distributed transactions to an archive."),
    "replay": ("replay:replay", "Replay an archive or a run, and report differences."),
    "agent": ("agent:agent", "Run the log reader, a distribution agent or clean-up."),
    "article": ("publish:article", "Show published tables, or change their formats."),
    "procedure": ("procedure:procedure", "Publish the execution of procedures and functions."),
    "any-client": ("clients:any_client", "Allow or forbid writes without a coordinator."),
    "merge": ("merge_commands:merge", "Run merge sessions, and show conflicts and generations."),
    "tracer": ("distribution:tracer", "Measure the latency of distribution."),
    "archive": ("archive:archive", "Show, release or compact an archive."),
    "import": ("import_spec:import_app", "Convert a spec of isolationtester to a scenario."),
    "export": ("import_spec:export_app", "Convert a scenario to a spec of isolationtester."),
}


class _Commands(LazyGroup):
    """The group of all commands; it exits quietly on Ctrl-C and on a closed pipe, as in ``twopc run … | head``."""

    table = _TABLE

    def invoke(self, ctx: Any) -> Any:
        try:
            try:
                result = super().invoke(ctx)
            except typer.Exit:
                sys.stdout.flush()  # flushed here, so that a closed pipe is detected before exit
                raise
            sys.stdout.flush()
            return result
        except _UsageError as error:
            error.message = without_passwords(error.message)
            raise
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


def _version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        typer.echo(f"twopc {version('twopc')}")
        raise typer.Exit


#: Commands that play scenarios: warnings of servers and agents there are in the history, and often intended.
_PLAYING = ("run", "step", "explain", "explore", "matrix", "sweep")


@app.callback()
def settings(
    ctx: typer.Context,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None,
        typer.Option(
            help="Lowest severity of the log messages that are shown.",
        ),
    ] = None,
    log_format: Annotated[
        Literal["text", "json"], typer.Option(help="Format of log messages.")
    ] = "text",
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Settings of every command."""
    from twopc import log

    usual = "error" if ctx.invoked_subcommand in _PLAYING else "warning"
    log.configure(level=log_level or usual, layout=log_format)


def main() -> None:
    """Run the command line and exit with its exit code."""
    # imported modules and data are kept until exit: repeated collections, and one at exit, would free nothing
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        # closed, as by >&-: the next file that is opened must not get its descriptor
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 # until the process ends
    for stream in (sys.stdout, sys.stderr):
        replace_missing(stream)
    try:
        app(prog_name="twopc")  # however it was started, as completion uses this name
    except Exception as error:
        code = exit_code(error)
        try:
            sys.stdout.flush()
        except OSError:  # already reported; Python would report it again, and exit with 120
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(code)
