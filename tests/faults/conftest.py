"""The folder of the scenarios with faults, which are collected and played unchanged."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parent / "data"
