"""Where our log events go: through the standard library's loggers, named after the modules.

An application that embeds us therefore hears nothing that it has not asked for; `configure` is what
the command line calls. It must not know what is logged.
"""

from __future__ import annotations

import logging
import sys
from typing import Literal, TextIO

import structlog


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger of events with fields: ``logger.info("server started", port=5432)``.

    The fields become attributes of the log record, so they cannot be called ``name``, ``args`` and
    the like. Passwords and connection strings are no fields.
    """
    logger: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(name),
        # Given here, so that neither side's structlog.configure meets the other's.
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.render_to_log_kwargs,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    return logger


def configure(*, level: str, layout: Literal["text", "json"], stream: TextIO | None = None) -> None:
    """Write the events of this process to `stream` (standard error): from `level` on.

    As text, or as one line of JSON each. Those of other libraries are written if they are warnings at
    least; who wants more sets the level of that library's logger.

    Raises ValueError for a level that the standard library does not know.
    """
    stream = stream or sys.stderr
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if layout == "json"
        else structlog.dev.ConsoleRenderer(colors=stream.isatty())
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.stdlib.ExtraAdder(),
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.format_exc_info,
            ],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    own = logging.getLogger("twopc")
    own.setLevel(level.upper())
    root.setLevel(max(logging.WARNING, own.level))
