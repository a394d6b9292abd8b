"""What has become otherwise between two runs of an order, in one sentence. A pure function of the runs."""

from __future__ import annotations

from collections.abc import Iterator

from twopc.sim.explore.wire import PlayVariant, WireCard, WireRun
from twopc.sim.report.sentences import listed

_STATES = {
    "ok": "is accepted",
    "waited": "waits and is accepted",
    "refused": "is refused",
    "failed": "fails",
    "skipped": "is not sent",
    "waiting": "waits to the end",
    "not_played": "is not played",
}
_ENDS = ("commit", "rollback")
#: Differences that are told; of more so much that there are.
_MAX = 4


def compared(before: WireRun, was: PlayVariant, after: WireRun, now: PlayVariant) -> str:
    """``With version_check off b_write is accepted instead of refused; bob is committed …``."""
    parts = list(_parts(before, after))
    lead = _lead(was, now)
    if not parts:
        return f"{lead}nothing is otherwise: {_lower(after['outcome'])}"
    more = f"; and {len(parts) - _MAX} more" if len(parts) > _MAX else ""
    text = "; ".join(parts[:_MAX]) + more
    return f"{lead}{text}." if lead else f"{text[:1].upper()}{text[1:]}."


def _lead(was: PlayVariant, now: PlayVariant) -> str:
    old, new = was.get("switches") or {}, now.get("switches") or {}
    changed = [
        f"{_called(name)} {new.get(name) or 'as in the file'}"
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    ]
    if (was.get("faults") or []) != (now.get("faults") or []):
        placed = [f"{each['do']} at {each['at']}" for each in now.get("faults") or ()]
        changed.append(listed(placed) if placed else "no fault")
    return f"With {listed(changed)}, " if changed else ""


def _called(name: str) -> str:
    return name.removeprefix("protection.").replace("_", " ")


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _parts(before: WireRun, after: WireRun) -> Iterator[str]:
    """What is otherwise, what students look at first."""
    if before["possible"] is not True or after["possible"] is not True:
        if before["possible"] != after["possible"]:
            now = after["possible"]
            yield (
                "the order is possible"
                if now is True
                else f"the order is not possible: {now['reason']}"
            )
        return
    old_cards = {each["step"]: each for each in before["cards"]}
    for card in after["cards"]:
        old = old_cards.get(card["step"])
        if old is not None and card["text"] not in _ENDS:  # what comes of a session says the same
            yield from _card(old, card)
    for name, outcome in after["outcomes"].items():
        was = before["outcomes"].get(name)
        if was != outcome:
            yield f"{name} is {outcome}" + (f" instead of {was}" if was else "")
    held = {each["name"]: each["holds"] for each in before["invariants"]}
    for each in after["invariants"]:
        if not each["holds"] and held.get(each["name"], True):
            yield f"{each['name']} catches it"
        elif each["holds"] and held.get(each["name"]) is False:
            yield f"{each['name']} holds again"


def _card(old: WireCard, card: WireCard) -> Iterator[str]:
    if old["state"] != card["state"]:
        yield f"{card['step']} {_STATES[card['state']]} ({_STATES[old['state']]} before)"
    elif old["state"] in ("refused", "failed", "ok", "waited") and old["result"] != card["result"]:
        yield f"{card['step']} ends with {card['result']} (before: {old['result']})"
