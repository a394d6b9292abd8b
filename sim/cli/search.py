"""``twopc search``: every order of a small scenario, and every point at which a fault can strike, on the model."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twopc.sim.cli.command import command
from twopc.sim.cli.exits import LIVENESS, PASS, SAFETY, UNKNOWN
from twopc.sim.cli.options import File

if TYPE_CHECKING:
    from twopc.sim.model.explore.programs import Script
    from twopc.sim.model.explore.results import BrokenInvariant, Budget, SearchFigures
    from twopc.sim.model.wiring import Wiring
    from twopc.sim.scenario.check import LoadedScenario

#: Default kinds of faults.
_KINDS = ("coordinator", "publisher", "subscriber", "log")
_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """Options of ``twopc search``: orders, faults and limits."""

    file: File
    every: Annotated[
        bool,
        typer.Option(
            "--all", help="Search exhaustively: every order, one of each equivalence class."
        ),
    ] = False
    runs: Annotated[
        int, typer.Option(metavar="N", min=0, help="Draw N random orders and faults instead.")
    ] = 0
    crashes: Annotated[int, typer.Option(metavar="N", min=0, help="Number of faults in a run.")] = 0
    of: Annotated[
        list[str] | None,
        typer.Option("--of", metavar="KIND", help="Kinds of faults: coordinator, log, …"),
    ] = None
    only: Annotated[
        list[str] | None, typer.Option(metavar="SESSION", help="Use only these sessions.")
    ] = None
    seed: Annotated[int, typer.Option(metavar="S", help="Seed of the random number generator.")] = 0
    seconds: Annotated[
        float, typer.Option(metavar="S", min=0, help="Time limit in seconds; 0: none.")
    ] = 0.0
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Search with a protection switched off, or with a planted bug."
        ),
    ] = None
    replay: Annotated[
        str, typer.Option(metavar="CHOICES", help="Repeat a run that was found before.")
    ] = ""
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the scenario that shows what was found.")
    ] = Path()

    @property
    def command(self) -> str:
        """Command line of a search with the same scenario, faults and protections."""
        words = ["twopc", "search", str(self.file)]
        words += [f"--crashes {self.crashes}"] if self.crashes else []
        words += [f"--of '{kind}'" for kind in self.of or ()]
        words += [f"--without {name}" for name in self.without or ()]
        return " ".join(words)


@command
def search(options: SearchOptions) -> None:
    """Search a scenario's sessions for an order, or a point of a crash, that breaks an invariant.

    The search runs on the model and generates its own orders; those of the file are not used. It stops at the
    first broken invariant, shortens the run, writes it as a scenario, and prints how to repeat it.
    """
    from twopc.sim.model.explore.results import Budget
    from twopc.sim.model.explore.strikes import FAULTS
    from twopc.sim.scenario.check import load
    from twopc.sim.scenario.search_program import script_of

    if sum((options.every, bool(options.runs), bool(options.replay))) != 1:
        raise typer.BadParameter("name one of --all, --runs and --replay", param_hint="search")
    loaded = load(options.file)
    if loaded.scenario.merges:
        from twopc.sim.cli.search_merge import search_merge  # most files do not merge

        raise typer.Exit(search_merge(loaded, options))
    kinds = tuple(options.of or _KINDS)
    for kind in kinds:
        if kind not in FAULTS:
            raise typer.BadParameter(f"there is {', '.join(FAULTS)}", param_hint="--of")
    script = _with(script_of(loaded), options.only or [])
    wiring = _wiring(options.without or [])
    budget = Budget(faults=options.crashes, of=kinds, seconds=options.seconds)
    if options.replay:
        raise typer.Exit(_replayed(script, wiring, budget, options.replay))
    results = (
        _every(script, wiring, budget) if options.every else _drawn(script, wiring, budget, options)
    )
    raise typer.Exit(_print_broken(loaded, script, wiring, budget, results, options))


def _with(script: Script, names: list[str]) -> Script:
    """Return the script with the named sessions only; with all if no name is given."""
    import dataclasses

    for name in names:
        if name not in script.clients:
            raise typer.BadParameter(f"there is {', '.join(script.clients)}", param_hint="--only")
    clients = {name: one for name, one in script.clients.items() if not names or name in names}
    return dataclasses.replace(script, clients=clients)


def _wiring(names: list[str]) -> Wiring:
    from twopc.sim.model.plants import PLANTS
    from twopc.sim.model.plants.protections import SUPPORTED, wiring_for
    from twopc.sim.model.wiring import Wiring

    wiring = Wiring()
    for name in names:
        if name in SUPPORTED:
            wiring = wiring_for([name], wiring)
        elif name in PLANTS:
            wiring = PLANTS[name].plant(wiring)
        else:
            known = ", ".join(sorted({*SUPPORTED, *PLANTS}))
            raise typer.BadParameter(f"there is {known}", param_hint="--without")
    return wiring


def _every(script: Script, wiring: Wiring, budget: Budget) -> SearchFigures:
    """Search orders with few deviations first, then all."""
    import dataclasses

    from twopc.sim.model.explore.search import by_bounds, exhaust

    short = by_bounds(script, wiring, dataclasses.replace(budget, deviations=1, runs=300))
    return short if short.broken is not None else exhaust(script, wiring, budget)


def _drawn(script: Script, wiring: Wiring, budget: Budget, options: SearchOptions) -> SearchFigures:
    import time

    from twopc.sim.model.choosers import SeededChooser
    from twopc.sim.model.explore.results import SearchFigures
    from twopc.sim.model.explore.single import play, replay

    began, endings, orders, done = time.monotonic(), set[str](), set[tuple[int, ...]](), 0
    broken: BrokenInvariant | None = None
    for number in range(options.runs):
        chance = random.Random(f"{options.seed}/{number}")
        chooser = SeededChooser(chance, often=chance.choice((0.02, 0.1, 0.3)))
        choices, _, wrong, ending = play(script, wiring, budget, chooser)
        done += 1
        orders.add(choices)
        endings.add(ending)
        if wrong:
            broken = replay(script, wiring, budget, choices)
            break
        if budget.seconds and time.monotonic() - began > budget.seconds:
            break
    return SearchFigures(
        runs=done, states=0, orders=len(orders), endings=tuple(sorted(endings)), crash_points=0,
        pruned=0, seconds=time.monotonic() - began, exhausted=False, broken=broken,
    )  # fmt: skip


def _print_broken(
    loaded: LoadedScenario, script: Script, wiring: Wiring, budget: Budget, result: SearchFigures,
    options: SearchOptions,
) -> int:  # fmt: skip
    """Print the result of a search; return the exit code."""
    if result.broken is None:
        print(f"{script.name}: {_figures(result)}")
        print(f"{len(result.endings)} behaviours:")
        for ending in result.endings[:_SHOWN]:
            print(f"  {ending}")
        if len(result.endings) > _SHOWN:
            print(f"  and {len(result.endings) - _SHOWN} more")
        print("no invariant is broken" + ("" if result.exhausted else ", as far as was searched"))
        return PASS if result.exhausted or not result.states else UNKNOWN
    from twopc.sim.model.explore.shrink import choices_text, fewer, shrink

    script, short = fewer(script, wiring, budget, result.broken)
    short = shrink(script, wiring, budget, short)
    command = options.command
    if len(script.clients) < len(loaded.scenario.sessions):
        command += "".join(f" --only {name}" for name in script.clients)
    _shown(short)
    path = options.out / f"{script.name}.found.twopc.yaml"
    text, lacks = _scenario(loaded, script, wiring, budget, short, options.without or [])
    path.write_text(text, encoding="utf-8")
    print(f"as a scenario: {path}{lacks}")
    print(f"  twopc run --on model {path}")
    print(f"exactly this run:\n  {command} --replay {choices_text(short.choices)}")
    print(f"found after {result.runs} runs, {result.seconds:.1f} s")
    return LIVENESS if short.invariants == ("ends",) else SAFETY


def _figures(result: SearchFigures) -> str:
    if not result.states:
        return f"{result.orders} different runs of {result.runs}, {result.seconds:.1f} s"
    return (
        f"{result.orders} orders (of equivalent ones, one), {result.states} states, {result.pruned} choices not "
        f"followed again, {result.crash_points} moments at which something went wrong, {result.runs} runs, "
        f"{result.seconds:.1f} s" + ("" if result.exhausted else ": given up")
    )


def _shown(broken: BrokenInvariant) -> None:
    print(f"broken: {', '.join(broken.invariants)}\n  {broken.message}", file=sys.stdout)
    print(f"{broken.events} events:")
    for line in broken.trace:
        print(f"  {line}")


def _scenario(
    loaded: LoadedScenario,
    script: Script,
    made: Wiring,
    budget: Budget,
    broken: BrokenInvariant,
    off: list[str],
) -> tuple[str, str]:
    """Return the text of a scenario that shows the broken invariant, and a note of what a scenario cannot express."""
    from twopc.sim.model.choosers import ReplayChooser
    from twopc.sim.model.explore.single import played
    from twopc.sim.model.plants.protections import SUPPORTED
    from twopc.sim.model.wiring import Wiring
    from twopc.sim.scenario.search_program import FoundFault, expected_of, found_text

    run = played(script, made, budget, ReplayChooser(broken.choices)).run
    launched, struck = run.launched, run.struck  # type: ignore[attr-defined] # of a script
    faults = [FoundFault(do=strike.do, at=point) for strike, point in struck if strike.do and point]
    names = ["converged" if name == "same_rows" else name for name in broken.invariants]
    twin = [name for name in off if name in SUPPORTED]
    right = played(script, Wiring(), budget, ReplayChooser(broken.choices)).run if twin else run
    report = right.evidence.outcomes  # type: ignore[attr-defined] # of a script
    text = found_text(loaded, launched, faults, twin, names, expected_of(report))
    if len(faults) < len(struck):
        return text, " (its steps; what went wrong has no name there)"
    return text, "" if twin == off else " (without the bug, which no scenario can plant)"


def _replayed(script: Script, wiring: Wiring, budget: Budget, text: str) -> int:
    from twopc.sim.model.explore.shrink import read
    from twopc.sim.model.explore.single import replay

    try:
        choices = read(text)
    except ValueError:
        raise typer.BadParameter(
            "choices are written as 17:2,40:1", param_hint="--replay"
        ) from None
    broken = replay(script, wiring, budget, choices)
    if broken is None:
        print("no invariant is broken")
        return PASS
    _shown(broken)
    return LIVENESS if broken.invariants == ("ends",) else SAFETY
