"""Switches protections of the protocol off in this process: the coordinator's, in which a twin is played.

What is put in their place are the planted bugs of the model (`sim.model.plants`): they are made of the product's own
drivers and recovery, and so they work on real servers, too. There is no way back; the process ends with its case.
"""

from __future__ import annotations

from collections.abc import Collection

from sim.model.plants.protections import wiring_for
from sim.model.sites import ModelSite
from twopc.drivers import coordinator, engine, keeper, several
from twopc.drivers.participant import Participant


def switch_off_here(names: Collection[str]) -> None:
    """Whatever is coordinated here from now on is without these protections.

    Raises:
        ConfigurationError: there is no such protection.
    """
    wiring = wiring_for(names)
    vars(engine)["Driver"] = wiring.driver
    vars(several)["SeveralDriver"] = wiring.several
    vars(keeper)["Recovery"] = wiring.recovery
    if wiring.site is not ModelSite:  # its methods ask nothing but what a real site has, too
        methods = {name: what for name, what in vars(wiring.site).items() if callable(what)}
        vars(coordinator)["Participant"] = type("Participant", (Participant,), methods)
