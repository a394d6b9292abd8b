"""Tests of the benchmarks' common options."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable

import pytest

from benchmarks import distribution, merge, pipeline
from benchmarks.figures import add_only, selected

#: The main function of each benchmark with figures to select, and one of its figures.
MAINS: dict[str, tuple[Callable[[], None], str]] = {
    "distribution": (lambda: asyncio.run(distribution.main()), "latency_p50"),
    "merge": (lambda: asyncio.run(merge.main()), "merge_idle_session"),
    "pipeline": (pipeline.main, "whole_rate"),
}


@pytest.mark.parametrize("benchmark", MAINS)
def test_a_name_of_no_figure(
    benchmark: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name that is no figure's is refused before anything is measured, and the figures are listed."""
    main, figure = MAINS[benchmark]
    monkeypatch.setattr(sys, "argv", [benchmark, "--only", "lantency"])
    with pytest.raises(SystemExit) as ended:
        main()
    error = capsys.readouterr().err
    assert ended.value.code == 2
    assert "--only lantency: no such figure" in error
    assert figure in error


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ([], ["close", "track", "track_one"]),
        (["--only", "track"], ["track", "track_one"]),
        (["--only", "track_one", "close"], ["close", "track_one"]),
    ],
)
def test_beginnings_select_figures(arguments: list[str], names: list[str]) -> None:
    parser = argparse.ArgumentParser()
    add_only(parser)
    only = parser.parse_args(arguments).only
    assert selected(parser, only, ["close", "track", "track_one"]) == names
