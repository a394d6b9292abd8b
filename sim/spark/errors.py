"""What the pipeline raises; all of it is definite, and nothing was changed."""

from __future__ import annotations

from twopc.errors import ConfigurationError


class PipelineError(ConfigurationError):
    """The pipeline cannot go on: object and remedy in the message."""


class SparkMissingError(PipelineError):
    """No Java, too little memory, or the extra is not installed."""


class ArchiveError(PipelineError):
    """An archive is not what its manifest says."""


class GapError(ArchiveError):
    """Sequence numbers are missing.

    Args:
        message: object and remedy.
        after: the last sequence number before the gap.
        upto: the first one behind it.
        where: what has the gap.
    """

    def __init__(self, message: str, *, after: int, upto: int, where: str) -> None:
        super().__init__(message)
        self.after = after
        self.upto = upto
        self.where = where


class ArchiveBusyError(PipelineError):
    """Another process writes this archive.

    Args:
        message: object and remedy.
        pid: of that process; 0 if it is not known.
    """

    def __init__(self, message: str, *, pid: int = 0) -> None:
        super().__init__(message)
        self.pid = pid
