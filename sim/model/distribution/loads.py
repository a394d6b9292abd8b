"""What an agent brings in one commit, and how: values, and the parts of its behaviour that can be replaced.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sim.model.distribution.apply import Apply, Call, apply_call
from sim.model.distribution.store import Stored
from subscriber.distribution_agent import Profile
from subscriber.distribution_agent.loads import Command
from subscriber.distribution_agent.planner import Batch, Planner


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A batch with the commands of it that are for this Subscriber."""

    batch: Batch
    commands: tuple[tuple[Command, int], ...]
    """Each with its hash key."""
    posted: tuple[Command, ...] = ()
    """What was posted for everybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Move the position."""

    was: int
    becomes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bring:
    """Apply commands."""

    calls: tuple[Call, ...]


Commit = Sequence[Move | Bring]


def in_one_commit(move: Move, bring: Bring) -> Sequence[Commit]:
    """The position moves where the data do, and nothing of a batch is there before the rest."""
    return ((move, bring),)


def is_own(command: Command, planner: Planner) -> bool:
    """It is the Subscriber's own, and must not come back: the mark in its transaction says so."""
    return command.originator == planner.own and command.article_id not in planner.echoed


def settings_of(profile: Profile) -> Mapping[str, str]:
    """What an agent's sessions are set to."""
    return {
        "session_replication_role": "replica",
        "lock_timeout": "0",
        "synchronous_commit": "on" if profile.synchronous_commit else "off",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How an agent goes about it; a plant is one that goes about it otherwise."""

    commits: Callable[[Move, Bring], Sequence[Commit]] = in_one_commit
    is_own: Callable[[Command, Planner], bool] = is_own
    settings: Callable[[Profile], Mapping[str, str]] = settings_of
    planner: type[Planner] = Planner
    apply: Apply = field(default=apply_call)


def load_of(batch: Batch, stored: Mapping[int, Stored], planner: Planner, habits: Habits) -> Load:
    """What of a batch is for the Subscriber.

    Args:
        stored: its transactions, by position.
    """
    wanted = {*batch.articles}
    commands: list[tuple[Command, int]] = []
    posted: list[Command] = []
    for seqno in batch.seqnos:
        each = stored[seqno]
        for command, hashkey in zip(each.commands, each.hashkeys, strict=True):
            if not command.article_id:
                posted.append(command)
            elif command.article_id in wanted and not habits.is_own(command, planner):
                commands.append((command, hashkey))
    return Load(batch=batch, commands=tuple(commands), posted=tuple(posted))


def call_of(command: Command) -> Call:
    """As the procedures take it."""
    return command.article_id * 100 + command.type, command.command
