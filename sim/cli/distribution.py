"""``twopc status, browse, sync, validate, tracer``: distribution on servers that are running."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twopc.sim.cli.command import command
from twopc.sim.cli.exits import LIVENESS, PASS, SAFETY
from twopc.sim.cli.merge_status import status as merge_status
from twopc.sim.cli.place import (
    CoordinatorName,
    Folder,
    Json,
    Nodes,
    Subscribers,
    TopologyPlace,
    print_json,
    shown,
    tell_left_out,
    tell_unreachable,
)
from twopc.sim.cli.up import folder_of, idle_processes, tell_idle

if TYPE_CHECKING:
    from twopc.publisher.distribution import AgentStatus, BrowsedCommand
    from twopc.publisher.slot import SlotState
    from twopc.sim.topology import Topology
    from twopc.sim.topology.inspection import DistributionStatus

Lines = Annotated[bool, typer.Option("--json", help="Print each as one line of JSON.")]

tracer = typer.Typer(
    help="Measure the latency of distribution to each Subscriber.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@command
def status(at: TopologyPlace, as_json: Json = False) -> None:
    """Show the position and state of the log reader and of every agent.

    Nodes that cannot be reached are reported. Exit code 6: an agent has ended or is stopped, an article is stale,
    or a node cannot be reached.
    If `twopc up` runs nodes that merge, it is `twopc merge status`.
    """
    from twopc.sim.up import load
    from twopc.sim.up.watch import IdleProcesses, as_stopped

    if not at.nodes and load(folder_of(at.folder)).merges:
        merge_status(folder=at.folder, as_json=as_json)
    result: DistributionStatus = at.run(lambda t: t.inspect.status(), partly=True)
    idle = IdleProcesses() if at.nodes else idle_processes(at.folder)
    result = replace(result, agents=as_stopped(result.agents, idle.stopped))
    if as_json:
        print_json({**asdict(result), "not_running": idle.missing, "stopped": idle.stopped})
    else:
        tell_unreachable(result.unreachable)
        tell_idle(idle)
        _show_reader(result)
        for stray in result.strays:
            _show_stray(stray)
        for each in result.stale:
            name = shown(f"{each.schema}.{each.name}")
            print(
                f"{name} at {each.node}: {each.reason}; its changes are refused until "
                f"`twopc regenerate {name}`"
            )
        for agent in result.agents:
            _show_agent(
                agent, result.update_modes.get(agent.subscriber, ""), _unread_text(result.slot)
            )
    raise typer.Exit(LIVENESS if idle or _bad(result) else PASS)


def _bad(result: DistributionStatus) -> bool:
    slot = result.slot
    lost = result.reader is not None and (slot is None or result.slot_problem is not None)
    stopped = any(
        a.runstatus in ("failed", "dead") or a.subscription == "inactive" for a in result.agents
    )
    failed = result.reader is not None and bool(result.reader.last_error)
    return lost or stopped or failed or any((result.strays, result.stale, result.unreachable))


def _show_reader(result: DistributionStatus) -> None:
    reader, slot = result.reader, result.slot
    if reader is None:
        if not result.unreachable:
            print("no subscription: there is nothing to distribute")
        return
    print(f"log reader of {reader.publisher}: read to {reader.read_to}", end="")
    print(f", last commit {reader.last_commit:%Y-%m-%d %H:%M:%S}" if reader.last_commit else "")
    print(f"  stored: {reader.transactions} transactions, {reader.commands} commands")
    if slot is None and reader.publisher in result.unreachable:
        print(f"  slot {reader.slot}: not known, since {reader.publisher} is not reached")
    elif slot is None:
        print(f"  slot {reader.slot}: it is gone; `twopc reinitialise` every Subscriber")
    else:
        reads = f"read by pid {slot.active_pid}" if slot.active else "not in use"
        print(
            f"  slot {slot.name}: {reads}, {slot.lag_bytes} bytes not read, {slot.retained_bytes} kept"
            f" ({slot.wal_status})"
        )
        if result.slot_problem:
            print(f"  {result.slot_problem}")
    if reader.last_error:
        print(f"  last error: {reader.last_error}")


def _show_stray(slot: SlotState) -> None:
    reads = f"read by pid {slot.active_pid}" if slot.active else "not in use"
    print(
        f"slot {slot.name}: registered nowhere in this distribution database, {reads}, "
        f"{slot.retained_bytes} bytes of log kept for it"
    )
    print(f"  unless another distribution database has it: {slot.drop_statement}")


def _unread_text(slot: SlotState | None) -> str:
    """Return a text about the part of the log that is not stored yet."""
    if slot is None or slot.unread_s is None:
        return ""
    return f", and what is in {slot.lag_bytes} bytes of log not read for {slot.unread_s:.1f} s"


def _show_agent(agent: AgentStatus, mode: str, unread: str) -> None:
    reads = ", read only" if mode == "read only" else ""
    print(
        f"agent of {agent.subscriber}: {agent.runstatus}, subscription {agent.subscription}{reads}"
    )
    waiting = f"{agent.waiting_transactions} transactions wait"
    is_late = agent.waiting_transactions and agent.lag_s is not None
    late = f", the oldest for {agent.lag_s:.1f} s" if is_late else ""
    rate = f", {agent.commands_per_s:.0f} commands/s" if agent.commands_per_s else ""
    print(f"  delivered to {agent.delivered}; {waiting}{late}{unread}{rate}")
    if agent.last_error:
        print(f"  last error: {agent.last_error}")


@command
def browse(
    at: TopologyPlace,
    start: Annotated[
        str | None, typer.Option("--from", metavar="LSN", help="First position.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="LSN", help="Last position.")] = None,
    article: Annotated[
        str | None, typer.Option(help="TABLE or SCHEMA.TABLE, or an article number.")
    ] = None,
    command: Annotated[
        int | None,
        typer.Option(help="Number of one command of the transaction at --from and --to."),
    ] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of commands.")] = 1000,
    as_json: Lines = False,
) -> None:
    """Print the commands in the distribution database, with decoded bitmasks (sp_browsereplcmds)."""

    async def look(topology: Any) -> list[BrowsedCommand]:
        result: list[BrowsedCommand] = await topology.inspect.browse(
            seqno_start=start,
            seqno_end=end,
            article=int(article) if article and article.isdecimal() else article,
            command_id=command,
            limit=limit,
        )
        return result

    last = ""
    for each in at.run(look):
        if as_json:
            print_json(each)
            continue
        if each.xact_seqno != last:
            origin = each.originator or "the Publisher"
            print(f"{each.xact_seqno}  {each.entry_time:%Y-%m-%d %H:%M:%S.%f}  from {origin}")
            last = each.xact_seqno
        print(f"  {each.command_id:>4}  {each.statement}")


@command
def sync(at: TopologyPlace, subscribers: Subscribers = None) -> None:
    """Deliver everything committed at the Publisher. If the log reader or an agent runs in another process, wait for it."""

    async def work(topology: Topology) -> Any:
        done = await topology.sync(*(subscribers or ()))
        return done, [] if subscribers else await topology.registration.left_out()

    done, left_out = at.run(work)
    for name, each in done.items():
        print(f"{name}: {each.transactions} transactions, {each.commands} commands")
    tell_left_out(left_out)


def validate(
    nodes: Nodes = None,
    subscribers: Subscribers = None,
    coordinator: CoordinatorName = None,
    table: Annotated[
        list[str] | None, typer.Option(help="TABLE or SCHEMA.TABLE; none: every one.")
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Copy the Publisher's values to rows that differ.")
    ] = False,
    drive: Annotated[
        bool, typer.Option("--drive", help="Deliver changes during the check, if no agents run.")
    ] = False,
    folder: Folder = None,
) -> None:
    """Compare Subscribers' rows with the Publisher's while both are in use, and list the keys that differ."""

    async def work(topology: Topology) -> Any:
        result = await topology.validate(
            *(subscribers or ()), tables=table or (), repair=repair, drive=drive
        )
        return result, [] if subscribers else await topology.registration.left_out()

    verdicts, left_out = TopologyPlace(nodes=nodes, coordinator=coordinator, folder=folder).run(
        work
    )
    tell_left_out(left_out)
    for verdict in verdicts:
        for number, text in verdict.messages():
            print(f"{number}: {text}")
        for line in verdict.named():
            print(f"  {line}")
        if verdict.repaired:
            print(f"  {len(verdict.repaired)} rows repaired")
    raise typer.Exit(PASS if all(v.passed or v.repaired for v in verdicts) else SAFETY)


@tracer.command("post")
@command
def tracer_post(at: TopologyPlace) -> None:
    """Post a tracer token (sp_posttracertoken)."""
    token = at.run(lambda t: t.post_tracer_token())
    print(f"tracer token {token.id} posted")


@tracer.command("history")
@command
def tracer_history(
    at: TopologyPlace,
    token: Annotated[int | None, typer.Argument(help="Number of the token. Default: all.")] = None,
) -> None:
    """Show the latencies of tracer tokens, latest first (sp_helptracertokenhistory)."""
    for each in at.run(lambda t: t.tracer_history(tracer_id=token)):
        print(each)
