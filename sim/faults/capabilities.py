"""Which faults can be performed on real servers, and where; of those that cannot, why not.

Loaded with every run: words only.
"""

from __future__ import annotations

from collections.abc import Mapping

from twopc.drivers.points import (
    AGENT_POINTS,
    MERGE_DELIVERY_POINTS,
    MERGE_POINTS,
    MERGE_RANGE_POINTS,
    MERGE_SCHEMA_POINTS,
    POINTS,
    SNAPSHOT_POINTS,
)

#: Of the coordinator's process, recovery among them.
COORDINATOR = frozenset(point.partition("(")[0] for point in POINTS)

#: Where an answer arrives.
ANSWERS = frozenset({"reply.prepare", "reply.commit"})
#: Points before a request whose answer can be told from others.
REQUESTS = frozenset(
    {"coordinator.before_prepare", "coordinator.before_decision", "coordinator.before_commit"}
)
#: In the triggers at Subscribers, and in the Publisher's procedures.
GATED = frozenset({"trigger.enter", "proc.before_compare", "proc.after_apply"})
#: Of the agents' processes.
AGENTS = frozenset(point.partition("(")[0] for point in AGENT_POINTS)
#: Of who copies a Subscriber's rows.
COPIES = frozenset(SNAPSHOT_POINTS)
#: Of merge sessions.
MERGE = frozenset(
    point.partition("(")[0] for point in (*MERGE_POINTS, *MERGE_RANGE_POINTS, *MERGE_SCHEMA_POINTS)
)
#: Of whoever delivers a snapshot to a Subscriber that merges.
MERGE_DELIVERY = frozenset(point.partition("(")[0] for point in MERGE_DELIVERY_POINTS)
_WHEREVER = COORDINATOR | ANSWERS | GATED

#: By first word of `do`, the points at which it is performed.
ON_POSTGRES: Mapping[str, frozenset[str]] = {
    "crash": _WHEREVER | AGENTS | MERGE | MERGE_DELIVERY,
    "pause": _WHEREVER | AGENTS | MERGE,
    "kill": _WHEREVER | COPIES,
    "terminate": _WHEREVER | COPIES,
    "cancel": _WHEREVER,
    "restart": _WHEREVER | COPIES,
    "stop": _WHEREVER,
    "cut": _WHEREVER,
    "black": _WHEREVER,
    "one": _WHEREVER,
    "delay": _WHEREVER | AGENTS | COPIES | MERGE,
    "forget": COORDINATOR | ANSWERS,
    "finish": COORDINATOR | ANSWERS,
    "fill": _WHEREVER,
    "error": GATED,
    "lose": REQUESTS | ANSWERS,
    "repeat": REQUESTS | ANSWERS,
}

#: As in the model, where clocks are ours too.
ON_MODEL: Mapping[str, frozenset[str]] = {**ON_POSTGRES, "skew": _WHEREVER}

#: Why others are not.
WHY_NOT: Mapping[str, str] = {
    "skew": "a server takes the time of its machine",
}
#: Protections of the protocol, which are switched off in the process that coordinates: those that a scenario shows
#: the need of on servers.
IN_PROCESS = frozenset(
    {
        "decision_before_finish",
        "vote_heard",
        "every_vote",
        "decision_kept",
        "missing_looked_up",
        "sites_asked",
    }
)
#: Of those that servers keep: why nothing in a file would come of it there.
WHY_ON: Mapping[str, str] = {
    "fence": "it keeps out a request that arrives after recovery, and there recovery ends the dead coordinator's "
    "sessions first, with whatever was sent to them",
    "command_tag": "it tells of a transaction that was ended before its PREPARE, and there the Publisher's part is "
    "asked for first, in the same message, and refuses",
    "epoch": "it stops a process that another one has followed, and there a paused coordinator goes on before "
    "another of its name is started",
    "one_subscription": "several Subscribers in one transaction have a branch each at the Publisher, so that there is "
    "nothing to keep",
}
