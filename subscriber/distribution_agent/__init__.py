"""The distribution agent: delivers a Publisher's transactions to one Subscriber, each exactly once.

``planner`` decides, and is pure; ``agent`` is the loop, ``delivery`` and ``streams`` apply batches at the Subscriber,
``batch_failure`` handles a batch that fails: one engine above ``ports``, on servers and in virtual time. ``source``
and ``target`` are the two databases on servers. The package knows the Publisher by name only.
"""

from __future__ import annotations

from twopc.subscriber.distribution_agent.agent import AgentProgress, DistributionAgent
from twopc.subscriber.distribution_agent.main import Config, main
from twopc.subscriber.distribution_agent.ports import AheadError
from twopc.subscriber.distribution_agent.profile import Profile
from twopc.subscriber.distribution_agent.servers import Servers

__all__ = [
    "AgentProgress",
    "AheadError",
    "Config",
    "DistributionAgent",
    "Profile",
    "Servers",
    "main",
]
