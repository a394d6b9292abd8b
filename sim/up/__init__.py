"""A topology that is left running: servers, agents and a resolver, found again by their state folder."""

from __future__ import annotations

from twopc.sim.up.setup import down, remove, up
from twopc.sim.up.state import State, StateNode, default_folder, load, tour_folder

__all__ = ["State", "StateNode", "default_folder", "down", "load", "remove", "tour_folder", "up"]
