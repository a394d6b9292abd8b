"""Settings of a distribution agent, under the original's names.

Pure values, checked at construction.
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
    """An agent profile; defaults are the original's where it has them."""

    commit_batch_size: int = 100
    """Maximum number of source transactions in one commit at the Subscriber."""
    commit_batch_threshold: int = 1000
    """Maximum number of commands in one commit; a source transaction that has more is not split."""
    backlog_batch_size: int = BATCH_MAX
    """Maximum number of transactions, and of commands, in one commit while more than a thousand transactions
    wait and no batch fails: few large commits cost the Subscriber less. Without effect if there are several
    streams.
    """
    subscription_streams: int = 1
    """Number of connections over which the commands of a batch are spread. With more than one,
    readers may briefly see a part of a batch.
    """
    skip_errors: tuple[str, ...] = ()
    """Numbers (20598, 2601, 2627) or SQLSTATEs of errors for which a source transaction is dropped, and recorded."""
    polling_interval_ms: int = 5000
    """Interval at which an idle agent looks for transactions even without a notification."""
    query_timeout_ms: int = 1_800_000
    """Timeout of one statement at either database."""
    message_interval_ms: int = 10_000
    """Interval at which a busy agent records its progress."""
    retry_attempts: int = 10
    """Maximum number of consecutive retries after a temporary failure."""
    retry_interval_ms: int = 60_000
    """Maximum wait between two attempts; the first waits are shorter."""
    barrier_timeout_ms: int = 10_000
    """Maximum wait of a conflict for one of the Subscriber's own transactions to come through the log."""
    block_commands: int = 10_000
    """Maximum number of commands of a large transaction that are sent at once."""
    block_bytes: int = 16 * 1024 * 1024
    """Maximum length in bytes of a large transaction's commands sent at once; a single command may be larger."""
    synchronous_commit: bool = False
    """Whether each commit at the Subscriber waits until it is durable. No change is lost otherwise:
    the position is lost together with the changes of its commit.
    """

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
        """Return the settings that differ from the defaults, in the form stored in the distribution database."""
        usual = asdict(Profile())
        return {name: value for name, value in asdict(self).items() if value != usual[name]}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Self:
        """Return the profile that `as_json` has written."""
        values = dict(kept)
        if "skip_errors" in values:
            values["skip_errors"] = tuple(values["skip_errors"])
        return cls(**values)
