"""Errors of the pipeline; each is final and leaves nothing changed."""

from __future__ import annotations

from twopc.errors import ConfigurationError


class PipelineError(ConfigurationError):
    """The pipeline cannot continue; the message names the object and the remedy."""


class SparkMissingError(PipelineError):
    """Spark cannot run: no Java, too little memory, no usable cluster, or the extra is not installed."""


class ArchiveError(PipelineError):
    """An archive does not match its manifest."""


class GapError(ArchiveError):
    """Sequence numbers are missing.

    Args:
        message: object and remedy.
        after: the last sequence number before the gap.
        upto: the first sequence number after the gap.
        where: the archive or database that has the gap.
    """

    def __init__(self, message: str, *, after: int, upto: int, where: str) -> None:
        super().__init__(message)
        self.after = after
        self.upto = upto
        self.where = where


class ArchiveBusyError(PipelineError):
    """Another process is writing this archive.

    Args:
        message: object and remedy.
        pid: that of the other process; 0 if it is not known.
    """

    def __init__(self, message: str, *, pid: int = 0) -> None:
        super().__init__(message)
        self.pid = pid
