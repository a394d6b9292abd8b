"""The data pipeline: recorded workloads are accumulated, replayed, audited and swept by Spark."""

from __future__ import annotations
