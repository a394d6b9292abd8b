"""Logging of events through the standard library's loggers, named after the modules.

An application that embeds the package therefore sees no events unless it asks for them; the command line calls
`configure`. structlog is imported when the first event is logged: it imports most of rich, and most processes log
nothing. This module must not depend on what is logged.
"""

from __future__ import annotations

import functools
import logging
import sys
from typing import TYPE_CHECKING, Any, Literal, TextIO

if TYPE_CHECKING:
    import structlog


class EventLogger:
    """A logger of events with fields: ``logger.info("server started", port=5432)``.

    The fields become attributes of the log record, so they cannot have names such as ``name`` and ``args``.
    Passwords and connection strings must not be passed as fields.
    """

    def __init__(self, name: str) -> None:
        self._standard = logging.getLogger(name)

    def debug(self, event: str, **fields: Any) -> None:
        """Log an event that helps to debug the package."""
        if self._standard.isEnabledFor(logging.DEBUG):
            self._bound.debug(event, **fields)

    def info(self, event: str, **fields: Any) -> None:
        """Log an event of general interest."""
        if self._standard.isEnabledFor(logging.INFO):
            self._bound.info(event, **fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log an event that may need attention."""
        if self._standard.isEnabledFor(logging.WARNING):
            self._bound.warning(event, **fields)

    def error(self, event: str, **fields: Any) -> None:
        """Log a failure."""
        if self._standard.isEnabledFor(logging.ERROR):
            self._bound.error(event, **fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Log a failure with the exception that is being handled."""
        if self._standard.isEnabledFor(logging.ERROR):
            self._bound.exception(event, **fields)

    @functools.cached_property
    def _bound(self) -> structlog.stdlib.BoundLogger:
        import structlog  # imported here because it imports most of rich, and most processes log nothing

        bound: structlog.stdlib.BoundLogger = structlog.wrap_logger(
            self._standard,
            # Processors are passed here so that structlog.configure of the application has no effect on them, nor
            # the reverse.
            processors=[
                structlog.contextvars.merge_contextvars,
                structlog.stdlib.render_to_log_kwargs,
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
        )
        return bound


def get_logger(name: str) -> EventLogger:
    """Return the logger of a module."""
    return EventLogger(name)


class _LazyFormatter(logging.Formatter):
    """Formatter that creates structlog's formatter when the first event is logged."""

    def __init__(self, layout: Literal["text", "json"], *, colors: bool) -> None:
        super().__init__()
        self._layout = layout
        self._colors = colors

    def format(self, record: logging.LogRecord) -> str:
        return self._formatter.format(record)

    @functools.cached_property
    def _formatter(self) -> logging.Formatter:
        import structlog  # imported here for the same reason as in `EventLogger`

        renderer: structlog.typing.Processor = (
            structlog.processors.JSONRenderer()
            if self._layout == "json"
            else structlog.dev.ConsoleRenderer(colors=self._colors)
        )
        return structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.stdlib.ExtraAdder(),
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.format_exc_info,
            ],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )


def configure(*, level: str, layout: Literal["text", "json"], stream: TextIO | None = None) -> None:
    """Write this process's events of `level` and above to `stream` (default: standard error).

    The output is text, or JSON with one event per line. Events of other libraries are written if they are at least
    warnings; to see more, set the level of the library's logger.

    Raises ValueError for a level that the standard library does not define.
    """
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_LazyFormatter(layout, colors=stream.isatty()))
    root = logging.getLogger()
    root.handlers = [handler]
    own = logging.getLogger("twopc")
    own.setLevel(level.upper())
    root.setLevel(max(logging.WARNING, own.level))
