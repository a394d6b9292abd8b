"""What a distribution agent is set to, under the original's names.

Pure values, checked once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from twopc.errors import ConfigurationError

STREAMS_MAX = 64
BATCH_MAX = 10_000
_NUMBER = re.compile(r"\d{4,5}\Z")
_SQLSTATE = re.compile(r"[0-9A-Z]{5}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """An agent profile; the defaults are the original's where it has them."""

    commit_batch_size: int = 100
    """How many source transactions one commit at the Subscriber takes, at most."""
    commit_batch_threshold: int = 1000
    """How many commands; a source transaction that has more is not split."""
    backlog_batch_size: int = BATCH_MAX
    """How many transactions, and how many commands, one commit takes at most while more than a thousand
    transactions wait and nothing fails: few large commits cost the Subscriber less. With streams it has no effect."""
    subscription_streams: int = 1
    """Over how many connections the commands of a batch are spread. With more than one, readers may
    see a part of a batch for a moment."""
    skip_errors: tuple[str, ...] = ()
    """Numbers (20598, 2601, 2627) or SQLSTATEs of errors to pass over: the whole source transaction is
    dropped, and recorded."""
    polling_interval_ms: int = 5000
    """How often an idle agent looks even if nobody told it that there is something."""
    query_timeout_ms: int = 1_800_000
    """How long one statement may take at either database."""
    message_interval_ms: int = 10_000
    """How often a busy agent records its progress."""
    retry_attempts: int = 10
    """How often in a row it tries again after a failure that may pass."""
    retry_interval_ms: int = 60_000
    """How long it waits between two attempts, at most; it begins with little."""
    barrier_timeout_ms: int = 10_000
    """How long a conflict may wait for a transaction of the Subscriber's own that has not come through
    the Publisher's log yet."""
    block_commands: int = 10_000
    """How many commands of a large transaction travel at once."""
    block_bytes: int = 16 * 1024 * 1024
    """How much text of a large transaction travels at once; one command may be larger."""
    synchronous_commit: bool = False
    """Whether each commit at the Subscriber waits until it is durable. Nothing is lost without: the
    position is lost together with what came with it."""

    def __post_init__(self) -> None:
        for name, low, high in (
            ("commit_batch_size", 1, BATCH_MAX),
            ("commit_batch_threshold", 1, BATCH_MAX),
            ("backlog_batch_size", 1, BATCH_MAX),
            ("subscription_streams", 1, STREAMS_MAX),
            ("polling_interval_ms", 1, None),
            ("query_timeout_ms", 0, None),
            ("message_interval_ms", 1, None),
            ("retry_attempts", 0, None),
            ("retry_interval_ms", 1, None),
            ("barrier_timeout_ms", 0, None),
            ("block_commands", 1, 1_000_000),
            ("block_bytes", 1, 512 * 1024 * 1024),
        ):
            value = getattr(self, name)
            if value < low or (high is not None and value > high):
                requested = f"from {low} to {high}" if high is not None else f"at least {low}"
                raise ConfigurationError(f"agent profile: {name} is {value}; use {requested}")
        for error in self.skip_errors:
            if not _NUMBER.match(error) and not _SQLSTATE.match(error):
                raise ConfigurationError(
                    f"agent profile: skip_errors has {error!r}, which is neither one of the numbers"
                    " 20598, 2601, 2627 nor a SQLSTATE"
                )

    def as_json(self) -> dict[str, Any]:
        """What differs from the defaults, as the distribution database keeps it."""
        usual = asdict(Profile())
        return {name: value for name, value in asdict(self).items() if value != usual[name]}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Self:
        """The profile that `as_json` has given."""
        values = dict(kept)
        if "skip_errors" in values:
            values["skip_errors"] = tuple(values["skip_errors"])
        return cls(**values)
