"""The classes that a coordinator is made of. A test, or a twin of a scenario, puts others in their places."""

from __future__ import annotations

from dataclasses import dataclass

from twopc.drivers.participant import ServerParticipant
from twopc.drivers.postgres import Driver
from twopc.drivers.recovery import Recovery
from twopc.drivers.several import SeveralDriver


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """One class for each part; the defaults are the product's."""

    driver: type[Driver] = Driver
    """Of a transaction at one Subscriber."""
    several: type[SeveralDriver] = SeveralDriver
    """Of a transaction at several."""
    recovery: type[Recovery] = Recovery
    participant: type[ServerParticipant] = ServerParticipant
    """A node, as drivers ask it."""


PRODUCT = Implementation()
