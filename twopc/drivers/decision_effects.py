"""Effects on the decision log: writing a record, and determining whether it was written.

This module must not depend on the decision, nor on how it is propagated.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import psycopg

from twopc.drivers.hub import Hub, pause
from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol.effects import RecordKind, Timer

_LOGGED: Final = lru_cache(maxsize=1024)(lambda record: e.Logged(record=record))
RESEND_FIRED: Final = e.TimerFired(name=Timer.RESEND)


async def write(hub: Hub, epoch: int, sequence: int, effect: x.Log) -> e.Event | None:
    """Write a record, and wait for it if it is forced."""
    record, points, log = effect.record, hub.points, hub.log
    if record.kind is RecordKind.END:
        log.forget(epoch, sequence)
        return None
    if points.armed and record.kind is not RecordKind.COLLECTING:
        await points.reach("coordinator.before_decision")
    entry = log.append(epoch, sequence, record)
    if not effect.forced:
        return None
    await entry.wait()
    if entry.state == "failed":
        return e.LogFailed(record=record, reason=entry.reason)
    if entry.state == "unknown":
        return e.LogUnknown(record=record, reason=entry.reason)
    if points.armed and record.kind is not RecordKind.COLLECTING:
        await points.reach("coordinator.decision_logged")
    return _LOGGED(record)


async def read_back(
    hub: Hub, epoch: int, sequence: int, effect: x.ReadBack, until: float
) -> e.Event:
    """Determine whether a record was written whose insert was not answered; retry until `until`, by the runtime's
    clock.
    """
    record = effect.record
    while True:
        try:
            result = await hub.runtime.unbroken(hub.log.read_back(epoch, sequence))
        except LookupError:
            return RESEND_FIRED
        except psycopg.Error:
            if not await pause(hub, until):
                return RESEND_FIRED
            continue
        if result is not None and result.kind is record.kind:
            return e.LogFound(record=record)
        return e.LogMissing(record=record)
