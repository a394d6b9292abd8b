"""The classes of a coordinator's parts. A test, or a twin of a scenario, replaces some of them."""

from __future__ import annotations

from dataclasses import dataclass

from twopc.drivers.participant import ServerParticipant
from twopc.drivers.postgres import Driver
from twopc.drivers.recovery import Recovery
from twopc.drivers.several import SeveralDriver


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """The class of each part; the defaults are the product's."""

    driver: type[Driver] = Driver
    """Driver of a transaction at one Subscriber."""
    several: type[SeveralDriver] = SeveralDriver
    """Driver of a transaction at several Subscribers."""
    recovery: type[Recovery] = Recovery
    participant: type[ServerParticipant] = ServerParticipant
    """A node, as drivers access it."""


PRODUCT = Implementation()
