"""The faults that can be performed on real servers, with their points; and why others cannot.

Imported with every run, so it contains only constants.
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

#: Points of the coordinator's process, those of recovery among them.
COORDINATOR = frozenset(point.partition("(")[0] for point in POINTS)

#: Points at which an answer arrives.
ANSWERS = frozenset({"reply.prepare", "reply.commit"})
#: Points before a request whose answer can be identified.
REQUESTS = frozenset(
    {"coordinator.before_prepare", "coordinator.before_decision", "coordinator.before_commit"}
)
#: Points in the triggers at Subscribers, and in the Publisher's procedures.
GATED = frozenset({"trigger.enter", "proc.before_compare", "proc.after_apply"})
#: Points of the agents' processes.
AGENTS = frozenset(point.partition("(")[0] for point in AGENT_POINTS)
#: Points of the snapshot agent.
COPIES = frozenset(SNAPSHOT_POINTS)
#: Points of merge sessions.
MERGE = frozenset(
    point.partition("(")[0] for point in (*MERGE_POINTS, *MERGE_RANGE_POINTS, *MERGE_SCHEMA_POINTS)
)
#: Points of the delivery of a snapshot in files to a Subscriber.
MERGE_DELIVERY = frozenset(point.partition("(")[0] for point in MERGE_DELIVERY_POINTS)
_PROTOCOL_POINTS = COORDINATOR | ANSWERS | GATED

#: Points at which a fault can be performed, by the first word of `do`.
ON_POSTGRES: Mapping[str, frozenset[str]] = {
    "crash": _PROTOCOL_POINTS | AGENTS | MERGE | MERGE_DELIVERY,
    "pause": _PROTOCOL_POINTS | AGENTS | MERGE,
    "kill": _PROTOCOL_POINTS | COPIES,
    "terminate": _PROTOCOL_POINTS | COPIES,
    "cancel": _PROTOCOL_POINTS,
    "restart": _PROTOCOL_POINTS | COPIES,
    "stop": _PROTOCOL_POINTS,
    "cut": _PROTOCOL_POINTS,
    "black": _PROTOCOL_POINTS,
    "one": _PROTOCOL_POINTS,
    "delay": _PROTOCOL_POINTS | AGENTS | COPIES | MERGE,
    "forget": COORDINATOR | ANSWERS,
    "finish": COORDINATOR | ANSWERS,
    "fill": _PROTOCOL_POINTS,
    "error": GATED,
    "lose": REQUESTS | ANSWERS,
    "repeat": REQUESTS | ANSWERS,
}

#: The same for the model, where clocks are simulated too.
ON_MODEL: Mapping[str, frozenset[str]] = {**ON_POSTGRES, "skew": _PROTOCOL_POINTS}

#: Why other faults cannot be performed.
WHY_NOT: Mapping[str, str] = {
    "skew": "a server takes the time of its machine",
}
#: Protections of the protocol whose need a scenario can show on servers; they are switched off in the coordinator's
#: process.
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
#: Protections that are not switched off on servers, each with why a scenario would show no effect there.
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
