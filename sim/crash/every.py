"""Every fault that strikes while a coordinator's process stands at a point."""

from __future__ import annotations

from sim.crash.faults import FAULTS
from sim.crash.hands import HANDS
from sim.crash.pauses import PAUSES
from sim.crash.servers import SERVERS
from sim.crash.silence import SILENCE

EVERY = (*FAULTS, *HANDS, *PAUSES, *SERVERS, *SILENCE)
