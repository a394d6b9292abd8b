"""Rules of replication that a plant can replace by name; each keeps Publisher and Subscriber consistent.

The defaults do what the .sql files do. No rule waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

from twopc.sim.model.replication.versions import digest
from twopc.sim.model.values import Values

#: Returns whether a row qualifies.
Condition = Callable[[Values], bool]


def same_version(held: UUID, sent: UUID) -> bool:
    """Return whether a row has the version that the Subscriber received last."""
    return held == sent


def same_values(held: Sequence[Any], sent: Sequence[Any]) -> bool:
    """Return whether a row has all the published values that a DELETE sent."""
    return tuple(held) == tuple(sent)


def originator(role: str) -> str | None:
    """Return the mark by which agents recognise the originator of a change."""
    return role


def retreat(sent: int) -> tuple[str, ...]:
    """Return the statements that take the Publisher's transaction back to the Subscriber's position.

    Args:
        sent: number of calls of the transaction, including the current one.
    """
    return (f"rollback to s{sent - 1}",)


def looked_at_again(condition: Condition) -> Condition:
    """Return the condition unchanged, so that a row is judged again after a wait for its lock."""
    return condition


def always() -> bool:
    """Return True: the rule applies."""
    return True


def stamped(old: UUID, gid: str) -> UUID:
    """Return the new version of a row that a Subscriber's transaction has updated."""
    return digest(f"{old}{gid}")


def renewed(old: UUID, writer: str) -> UUID:
    """Return the new version of a row that was updated at the Publisher."""
    return digest(f"{old!s}{writer}")


def taken_back(stored: Sequence[Values]) -> Sequence[Values]:
    """Return the rows that the Subscriber takes over, of those stored at the Publisher with other values than sent."""
    return stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """The rules, by the names under which `twopc.sim.model.wiring.Wiring.parts` replaces them."""

    version_check: Callable[[UUID, UUID], bool] = same_version
    """(held, sent) → whether an UPDATE may change the row."""
    delete_check: Callable[[Sequence[Any], Sequence[Any]], bool] = same_values
    """(held, sent), published values without the key → whether a DELETE may delete the row."""
    all_counted: Callable[[int, int], bool] = int.__eq__
    """(done, sent) → whether as many rows were changed as were sent."""
    after_wait: Callable[[Condition], Condition] = looked_at_again
    """(condition on a row) → the condition, which is evaluated before a wait for the row's lock and after it."""
    recheck: Callable[[], bool] = always
    """() → whether a procedure that missed a row locks the row by key and tries again."""
    await_branches: Callable[[], bool] = always
    """() → whether it also waits for prepared branches of the same Subscriber."""
    marker: Callable[[str], str | None] = originator
    """(role of the link) → the originator in the branch's marker."""
    publisher_marker: Callable[[], bool] = always
    """() → whether a branch at the Publisher writes a marker."""
    savepoint_mirror: Callable[[int], tuple[str, ...]] = retreat
    """(calls of this transaction) → the first statements of a message."""
    stamp_version: Callable[[UUID, str], UUID] = stamped
    """(old version, gid) → the new version of a row that a Subscriber updates."""
    renew_version: Callable[[UUID, str], UUID] = renewed
    """(old version, name of the session) → the new version of a row that is updated at the Publisher."""
    partition_check: Callable[[], bool] = always
    """() → whether rows outside the article's filter are refused."""
    children_check: Callable[[], bool] = always
    """() → whether changes are refused whose referential actions would change rows that were not sent."""
    witness: Callable[[], bool] = always
    """() → whether changes of other rows by the Publisher's triggers are refused."""
    write_back: Callable[[Sequence[Values]], Sequence[Values]] = taken_back
    """(rows stored with other values) → the rows that the Subscriber takes over."""
    children_first: Callable[[], bool] = always
    """() → whether the net effect of a statement is sent in the order that foreign keys require."""
    guard: Callable[[], bool] = always
    """() → whether a commit at a Subscriber without its coordinator is refused."""
    capture_fires: Callable[[], str] = lambda: "origin"
    """() → when the Subscriber's triggers fire: not in the replica role, and therefore not for agents."""

    @classmethod
    def of(cls, parts: Mapping[str, Callable[..., Any]]) -> Behaviour:
        """Return the rules with replacements from wiring; other names in `parts` are ignored."""
        return cls(**{name: part for name, part in parts.items() if name in PARTS})


#: The default rules.
PARTS: Mapping[str, Callable[..., Any]] = {one.name: one.default for one in fields(Behaviour)}  # type: ignore[misc] # every rule has a default
