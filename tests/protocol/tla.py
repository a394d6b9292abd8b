"""Lamport's specifications TCommit and TwoPhase, as next-state functions.

From "Consensus on Transaction Commit" (J. Gray, L. Lamport, 2006) as kept in the TLA+ examples
(``specifications/transaction_commit``). They check the search: TLC's figures for three resource
managers are 34 distinct states for TCommit, and 288 distinct states of 1,146 generated, at depth
11, for TwoPhase.
"""

from __future__ import annotations

from collections.abc import Iterator

Rms = tuple[str, ...]


def tcommit_initial(count: int) -> list[Rms]:
    """Return the initial state, in which every resource manager is working."""
    return [("working",) * count]


def tcommit(state: Rms) -> Iterator[tuple[Rms, bool]]:
    """``TCNext``: prepare or decide at one resource manager."""
    can_commit = all(rm in ("prepared", "committed") for rm in state)
    not_committed = "committed" not in state
    for place, rm in enumerate(state):
        if rm == "working":
            yield _put(state, place, "prepared"), False
        if rm == "prepared" and can_commit:
            yield _put(state, place, "committed"), False
        if rm in ("working", "prepared") and not_committed:
            yield _put(state, place, "aborted"), False


TwoPhase = tuple[Rms, str, frozenset[int], frozenset[str]]


def two_phase_initial(count: int) -> list[TwoPhase]:
    """Return the initial state, in which nothing is prepared and no message sent."""
    return [(("working",) * count, "init", frozenset(), frozenset())]


def two_phase(state: TwoPhase) -> Iterator[tuple[TwoPhase, bool]]:
    """``TPNext``; messages are never removed."""
    rms, tm, prepared, messages = state
    everybody = frozenset(range(len(rms)))
    if tm == "init" and prepared == everybody:
        yield (rms, "done", prepared, messages | {"commit"}), False
    if tm == "init":
        yield (rms, "done", prepared, messages | {"abort"}), False
    for place, rm in enumerate(rms):
        if tm == "init" and f"prepared {place}" in messages:
            yield (rms, tm, prepared | {place}, messages), False
        if rm == "working":
            sent = messages | {f"prepared {place}"}
            yield (_put(rms, place, "prepared"), tm, prepared, sent), False
            yield (_put(rms, place, "aborted"), tm, prepared, messages), False
        if "commit" in messages:
            yield (_put(rms, place, "committed"), tm, prepared, messages), False
        if "abort" in messages:
            yield (_put(rms, place, "aborted"), tm, prepared, messages), False


def _put(rms: Rms, place: int, rm: str) -> Rms:
    return (*rms[:place], rm, *rms[place + 1 :])
