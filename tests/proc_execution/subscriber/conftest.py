"""Fixtures of these tests: a distribution database and a Subscriber, filled by hand."""

from __future__ import annotations

from tests.distribution_agent.conftest import ends

__all__ = ["ends"]
