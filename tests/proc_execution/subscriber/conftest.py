"""Fixtures: a distribution database and a Subscriber, filled by the tests."""

from __future__ import annotations

from tests.distribution_agent.conftest import ends

__all__ = ["ends"]
