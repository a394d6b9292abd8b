"""``twopc watch``: the present state of a topology that `twopc up` runs, on one screen."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from twopc.sim.cli.exits import LIVENESS, PASS
from twopc.sim.cli.up import Folder, folder_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from twopc.sim.up.state import State
    from twopc.sim.up.watch import TopologyState

_ROWS_MAX = 6


def watch(
    folder: Folder = None,
    every_s: Annotated[float, typer.Option("--every", min=0.1, help="Interval in seconds.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print the present state and exit.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="As --once, but print one JSON document.")
    ] = False,
) -> None:
    """Monitor transactions, conflicts, blocked sessions, branches in doubt and agents until Ctrl-C.

    Exit code 6 with --once or --json: a process does not run or is stopped, or a node cannot be reached.
    """
    from twopc.sim.up import load

    state = load(folder_of(folder))
    if as_json:
        now = asyncio.run(_look(state))
        print(json.dumps({"topology": state.name, **asdict(now)}, default=str))
    else:
        now = asyncio.run(_watch(state, every_s, once=once))
    raise typer.Exit(LIVENESS if now.missing or now.stopped or now.unreachable else PASS)


async def _look(state: State) -> TopologyState:
    from twopc.sim.up.watch import TopologyWatch

    async with TopologyWatch(state) as eyes:
        return await eyes.look()


async def _watch(state: State, every_s: float, *, once: bool) -> TopologyState:
    from rich.live import Live

    from twopc.sim.report import terminal
    from twopc.sim.up.watch import TopologyWatch

    console = terminal.console()
    loop = asyncio.get_running_loop()
    never = asyncio.Event()
    async with TopologyWatch(state) as eyes:
        before = await eyes.look()
        began = loop.time()
        if once:
            console.print(screen(state, before, before, 0))
            return before
        with Live(
            screen(state, before, before, 0), console=console, screen=console.is_terminal
        ) as live:
            while True:
                try:
                    await asyncio.wait_for(never.wait(), every_s)
                except TimeoutError:
                    now, at = await eyes.look(), loop.time()
                    live.update(screen(state, before, now, at - began))
                    before, began = now, at


def screen(
    state: State, before: TopologyState, now: TopologyState, seconds: float
) -> RenderableType:
    """Return the screen for two observations that are some seconds apart."""
    from rich.console import Group
    from rich.rule import Rule
    from rich.text import Text

    shown: list[RenderableType] = [Text(f"{state.name}  {state.folder}", style="bold")]
    if now.missing:
        shown.append(
            Text(f"does not run: {', '.join(now.missing)}: `twopc up` starts it", style="bold red")
        )
    shown += [Text(f"stopped: {each}", style="bold red") for each in now.stopped]
    shown.append(_merges(now) if state.merges else _nodes(before, now, seconds))
    if now.unread_bytes:
        unread = f"not read by the log reader: {now.unread_bytes:,} bytes of log"
        shown.append(Text(unread, style="yellow"))
    shown += [
        Text(f"{node.name}: {node.error}", style="red", no_wrap=True, overflow="ellipsis")
        for node in now.nodes
        if node.error
    ]
    for title, lines, style in (
        (
            "conflicts",
            [f"{r.at}  {r.node}  {r.kind}  {r.text}" for r in reversed(now.refusals)],
            "yellow",
        ),
        ("blocked", list(now.blocked), "yellow"),
        ("in doubt", [f"{node}  {gid}  for {age:.1f} s" for node, gid, age in now.in_doubt], "red"),
    ):
        count = str(len(lines) or "none")
        if now.unreachable and title == "in doubt":
            count = f"{len(lines) or 'not known'}; not reached: {', '.join(now.unreachable)}"
        shown.append(Rule(f"{title}: {count}", align="left", style="dim"))
        shown += [
            Text(line, style=style, no_wrap=True, overflow="ellipsis") for line in lines[:_ROWS_MAX]
        ]
        if len(lines) > _ROWS_MAX:
            shown.append(Text(f"… and {len(lines) - _ROWS_MAX} more", style="dim"))
    return Group(*shown)


def _merges(now: TopologyState) -> RenderableType:
    """Return a table of the nodes of a topology that merges, and of the rows that wait for sessions."""
    from rich.table import Table

    table = Table(box=None, header_style="dim", pad_edge=False)
    for title in ("node", "sessions", "agent", "last session", "rows up", "rows down"):
        table.add_column(title, justify="left" if title in ("node", "agent") else "right")
    merges = {each.subscriber: each for each in now.merges}
    for node in now.nodes:
        if node.error:
            table.add_row(node.name, "", "[red]not reached[/red]")
            continue
        merge = merges.get(node.name)
        if merge is None:
            table.add_row(node.name, str(node.sessions))
            continue
        table.add_row(
            node.name,
            str(node.sessions),
            _merge_agent(now, f"merge agent of {node.name}"),
            f"{merge.last_session.astimezone():%H:%M:%S}" if merge.last_session else "",
            "" if merge.rows_up is None else str(merge.rows_up),
            str(merge.rows_down),
        )
    return table


def _merge_agent(now: TopologyState, name: str) -> str:
    if name in now.missing:
        return "[red]does not run[/red]"
    is_stopped = any(each.process == name for each in now.stopped)
    return "[red]stopped[/red]" if is_stopped else "runs"


def _nodes(before: TopologyState, now: TopologyState, seconds: float) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, header_style="dim", pad_edge=False)
    for title in (
        "node",
        "sessions",
        "transactions",
        "per s",
        "refused",
        "agent",
        "waiting",
        "lag",
    ):
        table.add_column(title, justify="left" if title in ("node", "agent") else "right")
    was = {node.name: node for node in before.nodes}
    agents = {each.subscriber: each for each in now.agents}
    for node in now.nodes:
        if node.error:
            table.add_row(node.name, *[""] * 4, "[red]not reached[/red]")
            continue
        rate = (node.transactions - was[node.name].transactions) / seconds if seconds else 0.0
        agent = agents.get(node.name)
        table.add_row(
            node.name,
            str(node.sessions),
            str(node.transactions) if agent else "",
            f"{rate:.0f}" if agent else "",
            str(node.refused) if agent else "",
            agent.runstatus if agent else "",
            str(agent.waiting_transactions) if agent else "",
            (f"{agent.lag_s:.1f} s" if agent.lag_s is not None else "0 s") if agent else "",
        )
    return table
