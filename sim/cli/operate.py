"""``twopc doctor, recover, indoubt, regenerate, activate, script, clean``: on servers that are running."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from twopc.sim.cli.exits import ENVIRONMENT, PASS, UNKNOWN
from twopc.sim.cli.place import (
    CoordinatorName,
    Filters,
    Folder,
    Nodes,
    Scripts,
    pairs,
    table_of,
    texts_by_table,
    with_topology,
)

if TYPE_CHECKING:
    from twopc.drivers.in_doubt import InDoubtBranch


def doctor(
    nodes: Annotated[
        list[str] | None,
        typer.Option(
            "--node",
            "-n",
            help="ROLE=DSN, where the role is publisher, subscriber or distribution. "
            "None: an embedded server is started and examined.",
            metavar="ROLE=DSN",
        ),
    ] = None,
) -> None:
    """Say whether servers are fit to be nodes, and the exact line for what is missing."""
    from twopc.doctor import Finding, examine, format_findings, registered_slots
    from twopc.server import Server

    def show(title: str, findings: tuple[Finding, ...]) -> bool:
        print(title)
        for line in format_findings(findings):
            print(f"  {line}")
        return any(finding.level == "error" for finding in findings)

    bad = False
    if not nodes:
        with Server.start(durable=True) as server:
            for role in ("publisher", "subscriber", "distribution"):
                found = examine(server.superuser_dsn("postgres"), role_of_node=role)
                bad |= show(f"embedded server as {role}", found)
        raise typer.Exit(ENVIRONMENT if bad else PASS)
    ends = [node.partition("=") for node in nodes]
    registered = registered_slots(dsn for role, _, dsn in ends if role == "distribution")
    for role, _, dsn in ends:
        if role not in ("publisher", "subscriber", "distribution") or not dsn:
            raise typer.BadParameter(
                f"{role!r}: write publisher=DSN, subscriber=DSN or distribution=DSN"
            )
        bad |= show(role, examine(dsn, role_of_node=role, registered=registered))  # type: ignore[arg-type]
    raise typer.Exit(ENVIRONMENT if bad else PASS)


def recover(
    nodes: Nodes = None, coordinator: CoordinatorName = None, folder: Folder = None
) -> None:
    """Settle what dead coordinators left prepared: one pass, safe to run at any time."""
    from twopc.sim import operate

    settled = with_topology(nodes, coordinator, operate.recover, folder=folder)
    for one in settled:
        print(f"{one.gid} at {one.node}: {one.outcome} ({one.reason})")
    print(f"{len(settled)} branches settled")


def indoubt(
    nodes: Nodes = None,
    coordinator: CoordinatorName = None,
    folder: Folder = None,
    force: Annotated[
        str | None,
        typer.Option(help="commit or abort one branch by hand; recorded as heuristic."),
    ] = None,
    gid: Annotated[str | None, typer.Option(help="The branch to force.")] = None,
    reason: Annotated[str, typer.Option(help="Why; recorded with it.")] = "",
) -> None:
    """List prepared branches: age, what they block, what was decided, what will happen next."""
    from twopc.protocol.effects import Outcome
    from twopc.sim import operate

    if (force is None) != (gid is None) or force not in (None, "commit", "abort"):
        raise typer.BadParameter("say --force commit or --force abort, and --gid GID")
    if force is not None and gid is not None:
        if not reason:
            raise typer.BadParameter("--reason is missing: it is recorded with the decision")
        outcome = Outcome.COMMITTED if force == "commit" else Outcome.ABORTED
        ended = with_topology(
            nodes, coordinator, lambda t: operate.force(t, gid, outcome, reason), folder=folder
        )
        print(f"{gid}: {ended}, recorded as heuristic")
        raise typer.Exit(PASS)
    branches = with_topology(nodes, coordinator, operate.look, folder=folder)
    for branch in branches:
        _show(branch)
    print(f"{len(branches)} prepared" if branches else "nothing is prepared")
    raise typer.Exit(UNKNOWN if any(branch.ours for branch in branches) else PASS)


def _show(branch: InDoubtBranch) -> None:
    from twopc.drivers.age import duration, size

    rows = "rows not counted" if branch.rows_locked is None else f"{branch.rows_locked} rows locked"
    print(f"{branch.gid}")
    age = branch.age
    print(f"  at {branch.node}, prepared {duration(branch.age_s)} ago by {branch.owner}")
    kept = f", slot {age.slot} keeps {size(age.log_bytes)} of log" if age.slot else ""
    print(f"  {age.xids:,} transactions old{kept}")
    for warning in age.warnings():
        print(f"  WARNING: {warning}")
    print(f"  {rows} in {', '.join(branch.relations) or 'no table'}")
    for waiter in branch.waiters:
        print(f"  blocks process {waiter.pid} ({waiter.application_name}): {waiter.lock}")
    print(f"  decision: {branch.decision or 'none logged'}")
    print(f"  next: {branch.next_action}")


def regenerate(
    table: Annotated[str, typer.Argument(help="TABLE or SCHEMA.TABLE.")],
    nodes: Nodes = None,
    repair: Annotated[
        bool,
        typer.Option(help="Give the Publisher's values to rows that the ALTER TABLE has changed."),
    ] = False,
    coordinator: CoordinatorName = None,
    folder: Folder = None,
) -> None:
    """Make procedures and triggers fit a published table again, after an ALTER TABLE."""
    schema, name = table_of(table)
    with_topology(
        nodes,
        coordinator,
        lambda t: t.regenerate(name, schema=schema, repair=repair),
        folder=folder,
    )
    print(f"{schema}.{name}: procedures and triggers are new")


def activate(
    subscriber: Annotated[str, typer.Argument(help="Name of the Subscriber.")],
    nodes: Nodes = None,
    coordinator: CoordinatorName = None,
    folder: Folder = None,
) -> None:
    """Activate a subscription again, once what stood in its way is gone."""
    with_topology(nodes, coordinator, lambda t: t.activate(subscriber), folder=folder)
    print(f"{subscriber}: active")


def script(
    subscriber: Annotated[str, typer.Argument(help="Name of the Subscriber.")],
    nodes: Nodes = None,
    role: Annotated[
        str | None,
        typer.Option(help="The application's role there; without it, the topology's."),
    ] = None,
    filters: Filters = None,
    scripts: Scripts = None,
    coordinator: CoordinatorName = None,
    folder: Folder = None,
) -> None:
    """Print what a Subscriber must run to get its triggers by hand (sp_script_synctran_commands).

    For a database that has the tables and the Publisher's rows already. The Publisher knows the
    Subscriber from then on; `twopc unsubscribe` if the script is not run after all.
    """
    conditions, texts = pairs(filters, "--filter"), texts_by_table(scripts)
    made = with_topology(
        nodes,
        coordinator,
        lambda t: t.script(subscriber, role=role, filters=conditions, scripts=texts),
        folder=folder,
        blank=True,
    )
    print(made.text, end="")
    print(
        f"The link will work at the Publisher as role {made.role}. Give it a password there, and "
        "the same in the user mapping that the script's head shows.",
        file=sys.stderr,
    )


def clean(
    pg: Annotated[
        str | None,
        typer.Option(metavar="URL", help="And what tests have left on this server."),
    ] = None,
) -> None:
    """Remove what embedded servers left behind when they were killed with everything around them.

    On a server that runs already: the databases of tests whose process surely lives no more, those that were
    kept for a look among them.
    """
    from twopc.server import ExternalServer, sweep

    left = [f"removed {one.directory}" for one in sweep()]
    if pg is not None:
        import psycopg

        from twopc.errors import ServerError
        from twopc.sim.testing.servers import sweep as sweep_server

        server = ExternalServer.from_dsn(pg)
        try:
            left += [f"dropped database {name}" for name in sweep_server(server, kept=True)]
        except psycopg.OperationalError as error:
            raise ServerError(f"the server at {server.where} cannot be reached: {error}") from None
    for line in left:
        print(line)
    print(f"{len(left)} leftovers removed" if left else "nothing was left behind")
