"""Where our log events go: through the standard library's loggers, named after the modules.

An application that embeds us therefore hears nothing that it has not asked for; `configure` is what
the command line calls. structlog is imported when the first event is heard: it brings most of rich with it,
and mostly nothing is logged. It must not know what is logged.
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

    The fields become attributes of the log record, so they cannot be called ``name``, ``args`` and
    the like. Passwords and connection strings are no fields.
    """

    def __init__(self, name: str) -> None:
        self._standard = logging.getLogger(name)

    def debug(self, event: str, **fields: Any) -> None:
        """Log what helps to find a fault of ours."""
        if self._standard.isEnabledFor(logging.DEBUG):
            self._bound.debug(event, **fields)

    def info(self, event: str, **fields: Any) -> None:
        """Log what somebody may want to know."""
        if self._standard.isEnabledFor(logging.INFO):
            self._bound.info(event, **fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log what somebody should look at."""
        if self._standard.isEnabledFor(logging.WARNING):
            self._bound.warning(event, **fields)

    def error(self, event: str, **fields: Any) -> None:
        """Log what did not work."""
        if self._standard.isEnabledFor(logging.ERROR):
            self._bound.error(event, **fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Log an error with the exception that is being handled."""
        if self._standard.isEnabledFor(logging.ERROR):
            self._bound.exception(event, **fields)

    @functools.cached_property
    def _bound(self) -> structlog.stdlib.BoundLogger:
        import structlog  # with most of rich, and mostly nothing is logged

        bound: structlog.stdlib.BoundLogger = structlog.wrap_logger(
            self._standard,
            # Given here, so that neither side's structlog.configure meets the other's.
            processors=[
                structlog.contextvars.merge_contextvars,
                structlog.stdlib.render_to_log_kwargs,
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
        )
        return bound


def get_logger(name: str) -> EventLogger:
    """The logger of a module."""
    return EventLogger(name)


class _LazyFormatter(logging.Formatter):
    """structlog's, made for the first event."""

    def __init__(self, layout: Literal["text", "json"], *, colors: bool) -> None:
        super().__init__()
        self._layout = layout
        self._colors = colors

    def format(self, record: logging.LogRecord) -> str:
        return self._made.format(record)

    @functools.cached_property
    def _made(self) -> logging.Formatter:
        import structlog  # likewise

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
    """Write the events of this process to `stream` (standard error): from `level` on.

    As text, or as one line of JSON each. Those of other libraries are written if they are warnings at
    least; who wants more sets the level of that library's logger.

    Raises ValueError for a level that the standard library does not know.
    """
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_LazyFormatter(layout, colors=stream.isatty()))
    root = logging.getLogger()
    root.handlers = [handler]
    own = logging.getLogger("twopc")
    own.setLevel(level.upper())
    root.setLevel(max(logging.WARNING, own.level))
