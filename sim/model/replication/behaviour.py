"""What of replication can be replaced by name: each is a rule that keeps the two ends alike.

The defaults are what the .sql files do. Nothing here waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

from twopc.sim.model.replication.versions import digest
from twopc.sim.model.values import Values

#: Whether a row is meant.
Condition = Callable[[Values], bool]


def same_version(held: UUID, sent: UUID) -> bool:
    """A row is as the Subscriber received it last."""
    return held == sent


def same_values(held: Sequence[Any], sent: Sequence[Any]) -> bool:
    """Every published value of a row is what a DELETE says it was."""
    return tuple(held) == tuple(sent)


def originator(role: str) -> str | None:
    """The mark by which agents know whose change it was."""
    return role


def retreat(sent: int) -> tuple[str, ...]:
    """How a message goes back to where the Subscriber's transaction is: `sent` calls are of it, this one too."""
    return (f"rollback to s{sent - 1}",)


def looked_at_again(condition: Condition) -> Condition:
    """A row that was waited for is judged as it has become."""
    return condition


def always() -> bool:
    """It is done."""
    return True


def stamped(old: UUID, gid: str) -> UUID:
    """The version of a row that a Subscriber's transaction has updated."""
    return digest(f"{old}{gid}")


def renewed(old: UUID, writer: str) -> UUID:
    """The version of a row that was updated at the Publisher."""
    return digest(f"{old!s}{writer}")


def taken_back(stored: Sequence[Values]) -> Sequence[Values]:
    """Rows that the Publisher stored otherwise than they were sent: those that the Subscriber takes over."""
    return stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """The rules, by the names under which `twopc.sim.model.wiring.Wiring.parts` replaces them."""

    version_check: Callable[[UUID, UUID], bool] = same_version
    """(held, sent) → an UPDATE may change the row."""
    delete_check: Callable[[Sequence[Any], Sequence[Any]], bool] = same_values
    """(held, sent), published values without the key → a DELETE may delete the row."""
    all_counted: Callable[[int, int], bool] = int.__eq__
    """(done, sent) → as many rows were changed as were sent."""
    after_wait: Callable[[Condition], Condition] = looked_at_again
    """(condition on a row) → the same, as it is asked before a wait for the row's lock and after it."""
    recheck: Callable[[], bool] = always
    """() → a procedure that missed a row locks it by key and tries once more."""
    await_branches: Callable[[], bool] = always
    """() → … and waits for prepared branches of the same Subscriber."""
    marker: Callable[[str], str | None] = originator
    """(role of the link) → the originator that the branch's marker names."""
    publisher_marker: Callable[[], bool] = always
    """() → a branch at the Publisher has a marker at all."""
    savepoint_mirror: Callable[[int], tuple[str, ...]] = retreat
    """(calls of this transaction) → what a message begins with."""
    stamp_version: Callable[[UUID, str], UUID] = stamped
    """(old version, gid) → the new one of a row that a Subscriber updates."""
    renew_version: Callable[[UUID, str], UUID] = renewed
    """(old version, name of the session) → the new one of a row that is updated at the Publisher itself."""
    partition_check: Callable[[], bool] = always
    """() → rows outside the article's filter are refused."""
    children_check: Callable[[], bool] = always
    """() → what a referential action would change at the Publisher and was not sent is refused."""
    witness: Callable[[], bool] = always
    """() → what triggers of the Publisher change in other rows is refused."""
    write_back: Callable[[Sequence[Values]], Sequence[Values]] = taken_back
    """(rows stored otherwise) → those that the Subscriber takes over."""
    children_first: Callable[[], bool] = always
    """() → the net effect of a statement is sent in the order that foreign keys need."""
    guard: Callable[[], bool] = always
    """() → no commit at a Subscriber past its coordinator."""
    capture_fires: Callable[[], str] = lambda: "origin"
    """() → for whom the Subscriber's triggers fire: not for the replica role, and so not for agents."""

    @classmethod
    def of(cls, parts: Mapping[str, Callable[..., Any]]) -> Behaviour:
        """With what wiring replaces; other names of `parts` are others'."""
        return cls(**{name: part for name, part in parts.items() if name in PARTS})


#: The rules as they are where nothing is replaced.
PARTS: Mapping[str, Callable[..., Any]] = {one.name: one.default for one in fields(Behaviour)}  # type: ignore[misc] # each has one
