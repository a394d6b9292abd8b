"""Where the scenarios with faults are, which are collected and played as they stand."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parent / "data"
