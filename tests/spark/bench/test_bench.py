"""The pipeline's benchmark reports as the others do."""

from __future__ import annotations

import json

import pytest

from benchmarks.figures import Figure, report


def test_how_it_reports(capsys: pytest.CaptureFixture[str]) -> None:
    """A figure without a target is told, and neither met nor missed."""
    figure = Figure(name="fold_ratio", value=0.5, unit="", target=None, better="higher")
    report("Pipeline", [figure])
    lines = capsys.readouterr().out.splitlines()
    assert not any("missed" in line for line in lines)
    assert json.loads(lines[-1])["target"] is None
