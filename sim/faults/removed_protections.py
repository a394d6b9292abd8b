"""A coordinator without some of the protocol's protections, for twins on real servers.

Their replacements are the planted bugs of the model (`twopc.sim.model.plants`): they are made of the product's own
drivers and recovery, and therefore work on real servers, too.
"""

from __future__ import annotations

from collections.abc import Collection

from twopc.drivers.implementation import Implementation
from twopc.drivers.participant import ServerParticipant
from twopc.sim.model.plants.protections import wiring_for
from twopc.sim.model.plants.recovery import MissingTaken, TakesMissing


class TrustedParticipant(MissingTaken, ServerParticipant):
    """A participant at which a missing branch is assumed to have been finished correctly."""


def without(names: Collection[str]) -> Implementation:
    """Return the classes of a coordinator without these protections.

    Raises:
        ConfigurationError: there is no such protection.
    """
    wiring = wiring_for(names)
    return Implementation(
        driver=wiring.driver,
        several=wiring.several,
        recovery=wiring.recovery,
        participant=TrustedParticipant if wiring.site is TakesMissing else ServerParticipant,
    )
