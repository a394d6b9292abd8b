"""Sweeps: a scenario on the model over a grid of values and seeds, distributed over Spark's cores."""

from __future__ import annotations
