"""docs/workloads.md is right: its example is the shipped one, and every key is described."""

from __future__ import annotations

import re
from pathlib import Path

from ruamel.yaml import YAML

from twopc.sim.scenario.workload import COUNTED, DRAWN, TIMED, Workload

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "workloads.md").read_text(encoding="utf-8")
SHIPPED = sorted((ROOT / "scenarios" / "stress").glob("*.twopc.yaml"))


def test_the_example_is_the_shipped_one():
    example = YAML(typ="safe").load(re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0])
    shipped = YAML(typ="safe").load(ROOT.joinpath("scenarios/stress/agent_outage.twopc.yaml"))
    assert {**shipped, **example} == shipped


def test_every_key_is_told():
    said = set(re.findall(r"[\w]+", PAGE))
    assert {*Workload.keys(), *DRAWN, *COUNTED, *TIMED} <= said


def test_every_shipped_load_is_told():
    for path in SHIPPED:
        assert f"| `{path.name.partition('.')[0]}` |" in PAGE
