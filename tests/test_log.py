"""Tests of log events: none by default, then as text or JSON."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Literal

import pytest

from tests.fix_log import loggers_restored
from twopc.log import configure, get_logger


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Create a stream for the log; the loggers are restored afterwards."""
    with loggers_restored():
        yield io.StringIO()


def test_nothing_is_heard_unasked(capfd: pytest.CaptureFixture[str]) -> None:
    get_logger("twopc.test").info("server started", port=5432)
    assert capfd.readouterr() == ("", "")


def test_json(stream: io.StringIO) -> None:
    configure(level="info", layout="json", stream=stream)
    logger = get_logger("twopc.test")
    logger.debug("not this")
    logger.info("server started", port=5432, pids=(1, 2))
    try:
        raise LookupError("on purpose")
    except LookupError:
        logger.exception("it failed")
    logging.getLogger("elsewhere").warning("of %s", "others")
    started, failed, others = map(json.loads, stream.getvalue().splitlines())
    assert started.pop("timestamp").endswith("Z")
    assert started == {
        "event": "server started",
        "level": "info",
        "logger": "twopc.test",
        "port": 5432,
        "pids": [1, 2],
    }
    assert "on purpose" in failed["exception"]
    assert others["event"] == "of others"


@pytest.mark.parametrize(("level", "lines"), [("debug", 2), ("INFO", 1), ("warning", 0)])
def test_text_and_levels(
    stream: io.StringIO, level: Literal["debug", "INFO", "warning"], lines: int
) -> None:
    configure(level=level, layout="text", stream=stream)
    get_logger("twopc.test").debug("first", port=1)
    get_logger("twopc.test").info("second", port=2)
    assert len(stream.getvalue().splitlines()) == lines
    assert ("port=2" in stream.getvalue()) == (lines > 0)


def test_others_are_heard_only_when_they_warn(stream: io.StringIO) -> None:
    configure(level="debug", layout="text", stream=stream)
    logging.getLogger("elsewhere").info("idle talk")
    logging.getLogger("elsewhere").warning("beware")
    get_logger("twopc.sim.test").debug("ours")
    assert "idle talk" not in stream.getvalue()
    assert len(stream.getvalue().splitlines()) == 2
    configure(level="error", layout="text", stream=stream)
    logging.getLogger("elsewhere").warning("not now")
    assert "not now" not in stream.getvalue()


def test_unknown_level(stream: io.StringIO) -> None:
    with pytest.raises(ValueError, match="LOUD"):
        configure(level="loud", layout="text", stream=stream)
