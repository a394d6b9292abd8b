"""Tests of the JSON Schema on the command line."""

from __future__ import annotations

import json

from twopc.sim.cli import exits
from twopc.sim.scenario.schema import schema


def test_it_is_printed(twopc):
    done = twopc("schema")
    assert done.returncode == 0
    assert json.loads(done.stdout) == schema()


def test_it_is_written(twopc, tmp_path):
    done = twopc("schema", "-o", "scenario.schema.json")
    assert done.returncode == 0
    assert json.loads((tmp_path / "scenario.schema.json").read_text(encoding="utf-8")) == schema()
    assert "# yaml-language-server: $schema=scenario.schema.json" in done.stderr
    assert twopc("schema", "-o", "/nowhere/x").returncode == exits.ENVIRONMENT
