"""Tests of the signals that end a command, and of the document that it prints."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from datetime import date

import pytest

from twopc.signals import stop_event
from twopc.sim.cli.place import print_json


async def test_an_ignored_sigint_stays_ignored() -> None:
    """A script runs `twopc agent &`, whose shell ignores SIGINT there: Ctrl-C ends the script, and not the agent."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        stop = stop_event()
        os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(stop.wait(), 10)
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGINT, before)


def test_a_document_is_json_whatever_the_rows_hold(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has no infinity and no NaN."""
    print_json({"row": {"a": float("-inf"), "b": [float("nan"), date(2026, 1, 2)]}})

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is no JSON")

    document = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert document == {"row": {"a": "-Infinity", "b": ["NaN", "2026-01-02"]}}
