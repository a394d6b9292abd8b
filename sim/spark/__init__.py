"""The data pipeline: Spark accumulates recorded workloads, replays and audits them, and sweeps scenarios."""

from __future__ import annotations
