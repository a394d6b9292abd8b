"""Hypothesis profiles for the protocol's tests.

``pytest tests/protocol --hypothesis-profile=thorough`` searches deeper, for some minutes; the path
must be given, since the profile is defined here.

A walk takes a quarter of a millisecond. A slow machine must not fail, so there is no deadline.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("quick", deadline=None, max_examples=400, derandomize=True)
settings.register_profile(
    "thorough",
    deadline=None,
    max_examples=10_000,
    suppress_health_check=[HealthCheck.too_slow],
)
