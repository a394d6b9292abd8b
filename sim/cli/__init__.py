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
from twopc.sim.cli.connection_strings import without_passwords
from twopc.sim.cli.diff import diff
from twopc.sim.cli.distribution import browse, status, sync, tracer, validate
from twopc.sim.cli.exits import EXIT_HELP, INTERRUPTED, UNREAD, exit_code
from twopc.sim.cli.explain import explain
from twopc.sim.cli.explore import explore
from twopc.sim.cli.import_spec import export_app, import_app
from twopc.sim.cli.init import init
from twopc.sim.cli.lessons import lessons
from twopc.sim.cli.listing import list_, show
from twopc.sim.cli.matrix import matrix
from twopc.sim.cli.merge import merge
from twopc.sim.cli.merge_columns import column as merge_column
from twopc.sim.cli.merge_conflicts import conflicts, resolve
from twopc.sim.cli.merge_looking import doctor as merge_doctor
from twopc.sim.cli.merge_looking import row, sessions
from twopc.sim.cli.merge_looking import status as merge_status
from twopc.sim.cli.merge_looking import validate as merge_validate
from twopc.sim.cli.merge_partitions import partitions
from twopc.sim.cli.merge_publish import publish as merge_publish
from twopc.sim.cli.merge_publish import subscribe as merge_subscribe
from twopc.sim.cli.merge_publish import unpublish as merge_unpublish
from twopc.sim.cli.merge_publish import unsubscribe as merge_unsubscribe
from twopc.sim.cli.merge_ranges import ranges as merge_ranges
from twopc.sim.cli.merge_snapshot import snapshot as merge_snapshot
from twopc.sim.cli.merge_upkeep import cleanup, reinit, retention, rewound
from twopc.sim.cli.merge_upkeep import regenerate as merge_regenerate
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

_UsageError: Any = typer.BadParameter.__base__  # Typer exports no more of it


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


#: These play scenarios: what servers and agents complain of there is in the history, and often meant.
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


#: In the order of `--help`, each with what is said of it there: playing, looking, beginning, operating.
COMMANDS = (
    (run, "run", "Run scenarios and check their expectations."),
    (check, "check", "Check scenario files without running them."),
    (list_, "list", "List scenarios: names, orders, tags, files."),
    (show, "show", "Show the contents of a scenario and what a run requires."),
    (step, "step", "Step through an order by hand: forward, back, elsewhere."),
    (explain, "explain", "Explain a run in sentences."),
    (explore, "explore", "Explore scenarios in the browser."),
    (report, "report", "Show a finished run as timeline, page, diagram or JUnit XML."),
    (diff, "diff", "Compare two runs."),
    (matrix, "matrix", "Print a table of conflicts by isolation level."),
    (search, "search", "Search a scenario for orders and crashes that break an invariant."),
    (sweep, "sweep", "Simulate a scenario over a grid of parameters and seeds."),
    (init, "init", "Create a scenario, a test and a table for settings."),
    (schema, "schema", "Print the JSON Schema of scenario files."),
    (completion, "completion", "Print the completion script of a shell."),
    (lessons, "lessons", "List the lessons: what each teaches, and how long it takes."),
    (tour, "tour", "Produce a first conflict by hand, in ten minutes."),
    (up, "up", "Start a topology that stays, for any client."),
    (watch, "watch", "Monitor the topology that `up` started."),
    (down, "down", "Stop the topology that `up` started."),
    (install, "install", "Make a database a Publisher."),
    (publish, "publish", "Publish a table."),
    (subscribe, "subscribe", "Create a subscription to everything that is published."),
    (refresh, "refresh", "Add newly published articles to subscriptions."),
    (reinitialise, "reinitialise", "Copy all rows to a Subscriber again."),
    (unsubscribe, "unsubscribe", "Drop a subscription."),
    (unpublish, "unpublish", "Drop an article."),
    (uninstall, "uninstall", "Remove all objects and roles of twopc from the nodes."),
    (doctor, "doctor", "Check the settings of servers, and print what to change."),
    (indoubt, "indoubt", "List prepared branches, or commit or roll back one by hand."),
    (recover, "recover", "Finish transactions of coordinators that have ended."),
    (regenerate, "regenerate", "Recreate triggers and procedures of an altered table."),
    (activate, "activate", "Activate a subscription again."),
    (resolver, "resolver", "Finish at the Publisher what clients have committed at Subscribers."),
    (script, "script", "Print the script that sets up a Subscriber."),
    (clean, "clean", "Remove servers and databases of runs that were killed."),
    (status, "status", "Show the state of the log reader and the agents."),
    (browse, "browse", "Print the commands in the distribution database."),
    (sync, "sync", "Deliver everything committed at the Publisher."),
    (validate, "validate", "Compare Subscribers' rows with the Publisher's."),
    (audit, "audit", "Check an archive against live tables."),
    (accumulate, "accumulate", "Append distributed transactions to an archive."),
    (replay, "replay", "Replay an archive or a run, and report differences."),
)
GROUPS = (
    (agent, "agent", "Run the log reader, a distribution agent or clean-up."),
    (article, "article", "Show published tables, or change their formats."),
    (procedure, "procedure", "Publish the execution of procedures and functions."),
    (any_client, "any-client", "Allow or forbid writes without a coordinator."),
    (merge, "merge", "Run merge sessions, and show conflicts and generations."),
    (tracer, "tracer", "Measure the latency of distribution."),
    (archive, "archive", "Show, release or compact an archive."),
    (import_app, "import", "Convert a spec of isolationtester to a scenario."),
    (export_app, "export", "Convert a scenario to a spec of isolationtester."),
)

MERGE_COMMANDS = (
    (merge_publish, "publish", "Publish a table for merging."),
    (merge_unpublish, "unpublish", "Drop an article of a merge publication."),
    (merge_snapshot, "snapshot", "Write what Subscribers begin with into files."),
    (merge_subscribe, "subscribe", "Create a Subscriber's merge subscription."),
    (merge_unsubscribe, "unsubscribe", "Drop a merge subscription."),
    (merge_status, "status", "Show subscriptions, and what waits between nodes."),
    (merge_ranges, "ranges", "Show which identity values each node holds."),
    (sessions, "sessions", "List the sessions of the last days."),
    (row, "row", "Show which node has which version of a row."),
    (conflicts, "conflicts", "List conflicts and failed changes."),
    (resolve, "resolve", "Resolve a conflict by hand."),
    (merge_validate, "validate", "Compare rows with the Publisher's, and repair them."),
    (reinit, "reinit", "Have a Subscriber begin anew."),
    (cleanup, "cleanup", "Remove metadata that is no longer needed."),
    (partitions, "partitions", "Show partitions of a filtered publication, or add one."),
    (retention, "retention", "Set how long metadata is kept."),
    (rewound, "rewound", "Tell a node that it was restored from a backup."),
    (merge_regenerate, "regenerate", "Enable triggers of merged tables again."),
    (merge_doctor, "doctor", "Find what is wrong that sessions do not notice."),
)

for _command, _name, _short in COMMANDS:
    app.command(_name, short_help=_short)(_command)
for _command, _name, _short in MERGE_COMMANDS:
    merge.command(_name, short_help=_short)(_command)
merge.add_typer(
    merge_column, name="column", short_help="Add, drop or widen a column of a merged table."
)
for _group, _name, _short in GROUPS:
    app.add_typer(_group, name=_name, short_help=_short)


def main() -> None:
    """Run the command line and leave with its exit code."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        # closed, as by >&-: what is opened next must not take its number
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 # until the process ends
    try:
        app(prog_name="twopc")  # however it was begun: completion knows this name
    except Exception as error:
        code = exit_code(error)
        try:
            sys.stdout.flush()
        except OSError:  # said already; Python would say it once more, and end with 120
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(code)
