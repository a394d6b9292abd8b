"""Hypothesis profiles for random schedules on both stages.

``pytest tests/agreement --hypothesis-profile=thorough`` draws many more, for about an hour; the path must be given,
since the profile is defined here. Examples have no deadline, because they depend on the speed of servers.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

_HEALTHY = [HealthCheck.too_slow, HealthCheck.filter_too_much]

settings.register_profile(
    "both",
    deadline=None,
    max_examples=8,
    stateful_step_count=20,
    derandomize=True,
    database=None,
    suppress_health_check=_HEALTHY,
)
settings.register_profile(
    "thorough",
    deadline=None,
    max_examples=2000,
    stateful_step_count=30,
    suppress_health_check=_HEALTHY,
)
