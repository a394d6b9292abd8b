"""Differences between two runs, aspect by aspect: each function yields the differences in words. Pure functions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from twopc.sim.checkers import LAST_SYNC
from twopc.sim.explore.watch import MOMENTS_MAX
from twopc.sim.explore.wire.runs import PlayVariant, WireCard, WireRun
from twopc.sim.report.behaviour import stable
from twopc.sim.report.sentences import listed

Stand = Mapping[str, dict[str, Any]]
#: What becomes of a step, by its card's state: now, and before.
_STATES = {
    "ok": ("is accepted", "accepted"),
    "waited": ("waits and is accepted", "waited, accepted"),
    "refused": ("is refused", "refused"),
    "failed": ("fails", "failed"),
    "skipped": ("is not sent", "not sent"),
    "waiting": ("waits to the end", "waited to the end"),
    "not_played": ("is not played", "not played"),
}
_ENDS = ("commit", "rollback")
#: Names of other kinds of state, by the first part of the key.
_HELD: Mapping[str, str] = {
    "node": "which nodes are up",
    "lock": "which locks are held",
    "marker": "the branch markers",
    "decision": "the decision log",
    "reader": "how far the log reader is",
    "stored": "what is stored for distribution",
    "agent": "how far the agents are",
    "generation": "the generations",
    "metadata": "the lineages of rows",
    "neighbour": "how far neighbours are with each other",
    "row": "versions and locks of rows",
    "session": "what the sessions do last",
    "message": "what is still on its way",
}


def idle_faults(run: WireRun, variant: PlayVariant) -> list[str]:
    """Return a text for each placed fault whose point the run does not reach, or that has no effect."""
    results = []
    texts = [each["text"] for each in run["moments"] if each["event"] == "fault"]
    for number, fault in enumerate(variant.get("faults") or (), 1):
        own = [text for text in texts if f"fault placed_{number} " in text]
        what = f"“{fault['do']}” at {fault['at']}"
        if not own and len(run["moments"]) < MOMENTS_MAX:
            often = " so often" if fault.get("nth", 1) > 1 else ""
            results.append(f"{what} never strikes, as the run does not come by there{often}")
        elif own and all(" has no effect at " in text for text in own):
            results.append(f"{what} has no effect: {own[0].partition(': ')[2]}")
    return results


# -- steps and sessions ------------------------------------------------------------------------------


def steps(before: WireRun, after: WireRun) -> Iterator[str]:
    """Yield differences in how steps end, for whom they wait, and why they are refused."""
    old_cards = {each["step"]: each for each in before["cards"]}
    new_cards = {each["step"]: each for each in after["cards"]}
    for card in after["cards"]:
        old = old_cards.get(card["step"])
        if old is None:
            yield f"{_called(card)} is played, too, and {_now(card)}"
        elif not _is_told_by_its_outcome(before, after, card):
            yield from _card(old, card)
    for name in old_cards:
        if name not in new_cards:
            at_the_end = name == LAST_SYNC
            yield (
                "nothing is delivered at the end"
                if at_the_end
                else f"{name} is not played any more"
            )


def _called(card: WireCard) -> str:
    return "the delivery at the end" if card["step"] == LAST_SYNC else card["step"]


def _is_told_by_its_outcome(before: WireRun, after: WireRun, card: WireCard) -> bool:
    session = card["session"]
    return card["text"] in _ENDS and before["outcomes"].get(session) != after["outcomes"].get(
        session
    )


def _card(old: WireCard, card: WireCard) -> Iterator[str]:
    name = _called(card)
    if old["state"] != card["state"]:
        yield f"{name} {_now(card)} (before: {_STATES[old['state']][1]})"
    elif stable(old["result"]) != stable(card["result"]):
        heads = [_head(each["result"]) for each in (card, old)]
        now, was = heads if heads[0] != heads[1] else (card["result"], old["result"])
        yield f"{name} ends with {now} (before: {was})"
    elif stable(old["waits_for"]) != stable(card["waits_for"]):
        waits = (each["waits_for"] for each in (card, old))
        now, was = (f"for {each}" if each else "for no session" for each in waits)
        yield f"{name} waits {now} (before: {was})"
    elif stable(old["because"]) != stable(card["because"]) and card["state"] in (
        "refused",
        "failed",
    ):
        yield f"{name} {_now(card)} for another reason: {card['because']}"


def _now(card: WireCard) -> str:
    return _STATES[card["state"]][0]


def _head(result: str) -> str:
    """Return the kind of a refusal, as in ``✗ refused: version_mismatch``, without the message."""
    return ": ".join(result.split(": ")[:2]) if result.startswith("✗") else result


def outcomes(before: WireRun, after: WireRun) -> Iterator[str]:
    """Yield differences in the outcomes of sessions."""
    old, new = before["outcomes"], after["outcomes"]
    for name in {**old, **new}:
        was, now = old.get(name), new.get(name)
        if was != now:
            instead = f" instead of {was}" if was and now else ""
            yield f"{name} is {now or f'not {was}'}{instead}"


# -- checks ------------------------------------------------------------------------------------------


def checks(before: WireRun, after: WireRun) -> Iterator[str]:
    """Yield differences in which checks hold, fail, or are made at all."""
    old, new = ({each["name"]: each for each in run["invariants"]} for run in (before, after))
    kinds: dict[str, list[str]] = defaultdict(list)
    for name in {**old, **new}:
        held = old[name]["holds"] if name in old else None
        holds = new[name]["holds"] if name in new else None
        if holds is False and held is not False:
            kinds["caught"].append(name)
        elif holds is True and held is False:
            kinds["again"].append(name)
        elif holds is None:
            kinds["unchecked" if held else "hidden"].append(name)
        elif holds is False and stable(old[name]["text"]) != stable(new[name]["text"]):
            yield f"{name} finds something else: {new[name]['text']}"
    if caught := kinds["caught"][::-1]:  # checks that are made only without a protection come last
        others = caught[1:]
        does = "does" if len(others) == 1 else "do"
        yield f"{caught[0]} catches it" + (f", and so {does} {listed(others)}" if others else "")
    for kind, (one, many) in _VERDICTS.items():
        if names := kinds.get(kind):
            yield f"{listed(names)} {one if len(names) == 1 else many}"


#: Wording for one check, and for several.
_VERDICTS: Mapping[str, tuple[str, str]] = {
    "again": ("holds again", "hold again"),
    "hidden": (
        "did not hold, and is not checked any more",
        "did not hold, and are not checked any more",
    ),
    "unchecked": ("is not checked any more", "are not checked any more"),
}


def added_checks(before: WireRun, after: WireRun) -> list[str]:
    """Return the checks that are new and hold, which is no difference in what happened."""
    old = {each["name"] for each in before["invariants"]}
    return [
        each["name"] for each in after["invariants"] if each["holds"] and each["name"] not in old
    ]


def missed_expectations(before: WireRun, after: WireRun) -> Iterator[str]:
    """Yield differences in unmet expectations of the file; for placed faults see `idle_faults`."""
    old, new = (
        Counter(
            stable(each["message"])
            for each in run["failures"]
            if not each["message"].startswith("fault 'placed_")
        )
        for run in (before, after)
    )
    for message in new - old:
        yield f"not as the file expects: {message}"
    for message in old - new:
        yield f"before it was not as the file expects: {message}"


# -- what is held at the end -------------------------------------------------------------------------


def final(run: WireRun) -> Stand:
    """Return the state at the end of a run."""
    stand: dict[str, Any] = {}
    for delta in run["states"]:
        stand.update(delta)
    return {key: value for key, value in stand.items() if value is not None}


def rows(before: WireRun, after: WireRun) -> Iterator[str]:
    """Yield differences in rows; a row that differs in the same way at several nodes is reported once."""
    old, new = final(before), final(after)
    nodes: dict[str, list[str]] = {}
    for key in {**old, **new}:
        kind, node, rest = (*key.split("/", 2), "", "")[:3]
        if kind != "row":
            continue
        was, now = (stand.get(key, {}).get("values", {}) for stand in (old, new))
        if stable(str(was)) != stable(str(now)):
            nodes.setdefault(f"{rest.replace('/', ' ', 1)} {_values(was, now)}", []).append(node)
    for text, where in nodes.items():
        yield f"at {listed(where)} {text}"


def _values(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    if not now:
        return "is gone at the end"
    if not was:
        values = ", ".join(f"{name} {_cell(value)}" for name, value in now.items())
        return f"is there at the end, with {values}"
    names = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    values = " and ".join(
        f"{name} {_cell(now.get(name))} (before: {_cell(was.get(name))})" for name in names
    )
    return f"ends with {values}"


def _cell(value: Any) -> str:
    return "null" if value is None else str(value)


def prepared_branches(before: WireRun, after: WireRun) -> Iterator[str]:
    """Yield differences in branches that are still prepared."""
    old, new = (
        Counter(
            f"{each['by']} at {key.split('/')[1]}"
            for key, each in final(run).items()
            if key.startswith("prepared/")
        )
        for run in (before, after)
    )
    for whose in new - old:
        yield f"a branch of {stable(whose)} is left prepared"
    for whose in old - new:
        yield f"no branch of {stable(whose)} is left prepared"


def remaining_state(before: WireRun, after: WireRun) -> Iterator[str]:
    """Yield the kinds of other state that differ at the end."""
    old, new = (
        Counter((stable(key), stable(str(each))) for key, each in final(run).items())
        for run in (before, after)
    )
    kinds = dict.fromkeys(key.partition("/")[0] for key, _ in ((new - old) | (old - new)))
    if kinds:
        yield f"{listed([_HELD.get(each, each) for each in kinds])} at the end"
