"""The distribution agent: brings a Publisher's transactions to one Subscriber, each exactly once.

``planner`` and ``dispatch`` decide, and are pure; ``source`` and ``target`` are the two databases,
``delivery`` and ``streams`` the way between them, ``mending`` what happens when a batch fails; ``agent`` is
the loop. Knows the Publisher by name only.
"""

from __future__ import annotations

from subscriber.distribution_agent.agent import Delivered, DistributionAgent
from subscriber.distribution_agent.main import Config, main
from subscriber.distribution_agent.mending_plan import AheadError
from subscriber.distribution_agent.profile import Profile

__all__ = ["AheadError", "Config", "Delivered", "DistributionAgent", "Profile", "main"]
