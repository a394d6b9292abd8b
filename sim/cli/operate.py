"""``twopc doctor, recover, indoubt, regenerate, activate, script, clean``: operation of running servers."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from twopc.sim.cli.command import command
from twopc.sim.cli.connection_strings import checked_server, node_dsns
from twopc.sim.cli.exits import ENVIRONMENT, PASS, UNKNOWN
from twopc.sim.cli.place import (
    CoordinatorName,
    Filters,
    Folder,
    Json,
    Nodes,
    Scripts,
    SubscriberName,
    TopologyPlace,
    pairs,
    print_json,
    shown,
    table_of,
    tell_unreachable,
    texts_by_table,
)

if TYPE_CHECKING:
    from twopc.doctor import RoleOfNode
    from twopc.drivers.heuristics import Heuristic
    from twopc.drivers.in_doubt import InDoubtBranch
    from twopc.drivers.recovery import SettledBranch
    from twopc.sim.topology import Topology


def doctor(
    nodes: Annotated[
        list[str] | None,
        typer.Option(
            "--node",
            "-n",
            help="ROLE=DSN with role publisher, subscriber or distribution; or NAME=DSN of an existing node. Default: an embedded server.",
            metavar="ROLE=DSN",
        ),
    ] = None,
) -> None:
    """Check whether servers can be nodes, and print the exact line for each missing setting."""
    from twopc.doctor import Finding, core_finding, examine, format_findings, registered_slots
    from twopc.server import EmbeddedServer

    def show(title: str, findings: tuple[Finding, ...]) -> bool:
        print(title)
        for line in format_findings(findings):
            print(f"  {line}")
        return any(finding.level == "error" for finding in findings)

    bad = show("this installation", (core_finding(),))
    if not nodes:
        with EmbeddedServer.start(durable=True) as server:
            for role in ("publisher", "subscriber", "distribution"):
                result = examine(server.superuser_dsn("postgres"), role_of_node=role)
                bad |= show(f"embedded server as {role}", result)
        raise typer.Exit(ENVIRONMENT if bad else PASS)
    ends = [(name, role, dsn) for name, dsn in node_dsns(nodes) for role in _roles_of(name, dsn)]
    registered = registered_slots(dsn for _, role, dsn in ends if role == "distribution")
    for name, role, dsn in ends:
        title = role if name == role else f"{name}, as {role}"
        bad |= show(title, examine(dsn, role_of_node=role, registered=registered))
    raise typer.Exit(ENVIRONMENT if bad else PASS)


def _roles_of(name: str, dsn: str) -> list[RoleOfNode]:
    """Return the roles for which a node is examined: its name if that is a role, else those that it already has."""
    import asyncio

    import psycopg

    from twopc.doctor import ROLES
    from twopc.sim.survey import kinds

    if name in ROLES:
        return [role for role in ROLES if role == name]
    try:
        result = asyncio.run(kinds(dsn))
    except psycopg.Error as error:
        raise typer.BadParameter(
            f"{name!r}: it cannot be asked what it is ({str(error).strip()}); if it is to be one, write "
            "publisher=DSN, subscriber=DSN or distribution=DSN"
        ) from None
    if not result:
        raise typer.BadParameter(
            f"{name!r}: nothing of ours is in this database: say what it is to be, as "
            "publisher=DSN, subscriber=DSN or distribution=DSN"
        )
    return [role for role in ROLES if role in result]


@command
def recover(at: TopologyPlace, as_json: Json = False) -> None:
    """Finish transactions of coordinators that have ended, in one pass. Can be run at any time.

    Nodes that cannot be reached are reported and skipped. Exit code 3: a branch is still in doubt, or may be
    at a node that cannot be reached.
    """
    from twopc.sim import operate

    unreachable: dict[str, str] = {}

    async def work(topology: Topology) -> tuple[list[SettledBranch], list[InDoubtBranch]]:
        before = {one.gid for one in await operate.look(topology, {})}
        settled = await operate.recover(topology)
        after = await operate.look(topology, unreachable)
        left = [b for b in after if b.ours and not b.is_under_way and b.gid in before]
        return settled, left

    settled, left = at.run(work, partly=True)
    if as_json:
        print_json({"settled": settled, "left": left, "unreachable": unreachable})
    else:
        for one in settled:
            print(f"{one.gid} at {one.node}: {one.outcome} ({one.reason})")
        for branch in left:
            print(f"{branch.gid} at {branch.node}: left in doubt: {branch.next_action}")
        tell_unreachable(unreachable)
        print(f"{len(settled)} branches settled, {len(left)} left in doubt")
    raise typer.Exit(UNKNOWN if left or unreachable else PASS)


@command
def indoubt(
    at: TopologyPlace,
    force: Annotated[
        str | None,
        typer.Option(help="commit or abort a branch by hand; recorded as a heuristic decision."),
    ] = None,
    gid: Annotated[str | None, typer.Option(help="The branch to force.")] = None,
    reason: Annotated[str, typer.Option(help="The reason, recorded with the decision.")] = "",
    as_json: Json = False,
) -> None:
    """List prepared branches: age, what they block, the decision, and what will happen next. Also list branches that
    were finished manually against the decision, so that the nodes differ.

    Nodes that cannot be reached are reported. Exit code 3: a branch is prepared, or may be at a node that
    cannot be reached.
    """
    from twopc.protocol.effects import Outcome
    from twopc.sim import operate

    if (force is None) != (gid is None) or force not in (None, "commit", "abort"):
        raise typer.BadParameter("say --force commit or --force abort, and --gid GID")
    if force is not None and gid is not None:
        if not reason:
            raise typer.BadParameter("--reason is missing: it is recorded with the decision")
        outcome = Outcome.COMMITTED if force == "commit" else Outcome.ABORTED
        ended = at.run(lambda t: operate.force(t, gid, outcome, reason))
        print(f"{gid}: {ended}, recorded as heuristic")
        raise typer.Exit(PASS)
    unreachable: dict[str, str] = {}

    async def work(topology: Topology) -> tuple[list[InDoubtBranch], list[Heuristic]]:
        return await operate.look(topology, unreachable), await operate.damage(topology)

    branches, damage = at.run(work, partly=True)
    if as_json:
        print_json({"branches": branches, "damage": damage, "unreachable": unreachable})
    else:
        for branch in branches:
            _show(branch)
        for one in damage:
            print(shown(one.gid))
            print(
                f"  at {one.node}: {one.outcome}, but decided was {one.decided}: the nodes differ"
            )
            at_time = datetime.fromtimestamp(one.recorded_at, UTC).isoformat(" ", "seconds")
            print(f"  recorded at {at_time} by {one.recorded_by}: {shown(one.reason)}")
        tell_unreachable(unreachable)
        where = " at the nodes that were reached" if unreachable else ""
        print(f"{len(branches)} prepared{where}" if branches else f"nothing is prepared{where}")
    in_doubt = unreachable or any(branch.ours for branch in branches)
    raise typer.Exit(UNKNOWN if in_doubt else PASS)


def _show(branch: InDoubtBranch) -> None:
    from twopc.drivers.age import duration, size

    rows = "rows not counted" if branch.rows_locked is None else f"{branch.rows_locked} rows locked"
    print(shown(branch.gid))
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
        typer.Option(
            help="Copy the Publisher's values to the Subscribers' rows that the ALTER TABLE has changed."
        ),
    ] = False,
    coordinator: CoordinatorName = None,
    folder: Folder = None,
) -> None:
    """Recreate the procedures and triggers of a published table after an ALTER TABLE."""
    schema, name = table_of(table)
    TopologyPlace(nodes=nodes, coordinator=coordinator, folder=folder).run(
        lambda t: t.regenerate(name, schema=schema, repair=repair)
    )
    print(f"{schema}.{name}: procedures and triggers are new")


@command
def activate(subscriber: SubscriberName, at: TopologyPlace) -> None:
    """Activate a subscription again after the cause of its failure was removed."""
    at.run(lambda t: t.activate(subscriber))
    print(f"{subscriber}: active")


def script(
    subscriber: SubscriberName,
    nodes: Nodes = None,
    role: Annotated[
        str | None,
        typer.Option(help="The application's role at the Subscriber. Default: the topology's."),
    ] = None,
    filters: Filters = None,
    scripts: Scripts = None,
    coordinator: CoordinatorName = None,
    folder: Folder = None,
) -> None:
    """Print the script that creates a Subscriber's triggers (sp_script_synctran_commands).

    For a database that already has the tables and the Publisher's rows. The subscription is registered at the
    Publisher; run `twopc unsubscribe` if the script is not used.
    """
    conditions, texts = pairs(filters, "--filter"), texts_by_table(scripts)
    made = TopologyPlace(nodes=nodes, coordinator=coordinator, folder=folder).run(
        lambda t: t.script(subscriber, role=role, filters=conditions, scripts=texts), blank=True
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
        typer.Option(
            metavar="URL",
            help="Also remove databases of tests on this server.",
            callback=checked_server,
        ),
    ] = None,
) -> None:
    """Remove servers and files of runs and tours that were killed.

    With --pg, also remove databases of tests whose process has ended, including those kept for inspection.
    """
    from twopc.server import ExternalServer, sweep
    from twopc.sim.up import tour_folder
    from twopc.sim.up.tour import sweep as sweep_tour

    left = [f"removed {one.directory}" for one in sweep()]
    if sweep_tour(tour_folder()):
        left.append(f"removed {tour_folder()}")
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
