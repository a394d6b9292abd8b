"""``twopc search`` for a scenario that merges: every order of its steps, and every point at which to cut a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from twopc.merge.protections import MergeProtection
from twopc.sim.cli.exits import LIVENESS, PASS, SAFETY, UNKNOWN
from twopc.sim.scenario.merge_search import MergeSearch, MergeSearchResult, PlayedCourse
from twopc.sim.scenario.search_program import FoundFault, found_text
from twopc.sim.scenario.theatres import played

if TYPE_CHECKING:
    from twopc.sim.cli.search import SearchOptions
    from twopc.sim.scenario.check import LoadedScenario

_KIND = "agent"
_SHOWN = 20


def search_merge(loaded: LoadedScenario, options: SearchOptions) -> int:
    """Search, and print the result; return the exit code."""
    _refuse(loaded, options)
    search = MergeSearch(
        loaded,
        only=options.only or (),
        off=options.without or (),
        runs=options.runs,
        seed=options.seed,
        crashes=options.crashes,
        seconds=options.seconds,
    )
    result = played("model", search.search())
    print(f"{loaded.scenario.name}: {_figures(result)}")
    if result.broken is not None:
        return _print_found(loaded, options, result.broken)
    print(f"{len(result.endings)} behaviours:")
    for ending in sorted(result.endings)[:_SHOWN]:
        print(f"  {ending}")
    if len(result.endings) > _SHOWN:
        print(f"  and {len(result.endings) - _SHOWN} more")
    is_whole = not (result.gave_up or options.runs)
    print("no invariant is broken" + ("" if is_whole else ", as far as was searched"))
    return UNKNOWN if result.gave_up else PASS


def _refuse(loaded: LoadedScenario, options: SearchOptions) -> None:
    """Refuse options that are not supported for a scenario that merges.

    Raises:
        BadParameter: the message names the option, and the supported values.
    """
    if options.replay:
        text = "a search of merge sessions is repeated by the scenario that it has written"
        raise typer.BadParameter(text, param_hint="--replay")
    if options.crashes > 1:
        text = "of merge sessions one is cut off in a run, or none"
        raise typer.BadParameter(text, param_hint="--crashes")
    if any(kind != _KIND for kind in options.of or ()):
        text = f"of a file that merges there is {_KIND}: a session is cut off"
        raise typer.BadParameter(text, param_hint="--of")
    for name in options.only or ():
        if name not in loaded.scenario.sessions:
            there = ", ".join(loaded.scenario.sessions)
            raise typer.BadParameter(f"there is {there}", param_hint="--only")
    for name in options.without or ():
        if name not in {*map(str, MergeProtection)}:
            there = ", ".join(map(str, MergeProtection))
            raise typer.BadParameter(
                f"of a file that merges there is {there}", param_hint="--without"
            )


def _figures(result: MergeSearchResult) -> str:
    counts = result.counts
    text = f"{counts.orders} orders of the steps, {counts.run} played (of equivalent ones, one)"
    if counts.infeasible:
        text += f", {counts.infeasible} of blocked sessions"
    if result.cuts:
        text += f", {result.cuts} sessions cut off"
    over = ": given up" if result.gave_up else ""
    return f"{text}, {result.runs} runs, {result.seconds:.1f} s{over}"


def _print_found(loaded: LoadedScenario, options: SearchOptions, course: PlayedCourse) -> int:
    names = [name for name, _ in course.broken]
    print(f"broken: {', '.join(dict.fromkeys(names))}")
    for _, message in course.broken:
        print(f"  {message}")
    print(f"{len(course.steps) + (course.cut is not None)} events:")
    for step in course.steps:
        session, what = loaded.scenario.steps[step]
        text = "; ".join(what.statements) or what.action or ""
        print(f"  {session}: {step}: {' '.join(text.split())}")
    faults = []
    if course.cut is not None:
        cut = course.cut
        faults = [FoundFault(do=cut.do, at=cut.at, nth=cut.nth)]
        print(f"  !! {cut.do} at {cut.at}{f', arrival {cut.nth}' if cut.nth > 1 else ''}")
    expected = dict.fromkeys(course.failed, "any")
    path = options.out / f"{loaded.scenario.name}.found.twopc.yaml"
    text = found_text(loaded, course.steps, faults, options.without or (), names, expected)
    path.write_text(text, encoding="utf-8")
    print(f"as a scenario: {path}\n  twopc run --on model {path}")
    return LIVENESS if set(names) == {"ends"} else SAFETY
