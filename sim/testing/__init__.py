"""Tests of two-phase commit, and of the races of any application, on real PostgreSQL.

With pytest everything comes as fixtures (`twopc`, `twopc_factory` …, see docs/testing.md); here are the names that
a test or a conftest imports; `sim.testing.strategies` and `sim.testing.machine` are for Hypothesis. Importing this
starts nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.pytest_plugin.factory import topology
    from sim.testing.asynchronous import AsyncTestTopology
    from sim.testing.blocking import TestNode, TestTopology
    from sim.testing.machine import TopologyMachine
    from sim.testing.orders import OrderRun, Orders
    from sim.testing.results import Result, Rows
    from sim.testing.servers import Server
    from sim.testing.session import Started, TestSession, Watched
    from twopc.errors import ConflictError as Conflict
    from twopc.errors import InDoubtError as InDoubt

__all__ = [
    "AsyncTestTopology",
    "Conflict",
    "InDoubt",
    "OrderRun",
    "Orders",
    "Result",
    "Rows",
    "Server",
    "Started",
    "TestNode",
    "TestSession",
    "TestTopology",
    "TopologyMachine",
    "Watched",
    "topology",
]

#: Where each name is, and how it is called there.
_PLACES = {
    "AsyncTestTopology": ("sim.testing.asynchronous", "AsyncTestTopology"),
    "Conflict": ("twopc.errors", "ConflictError"),
    "InDoubt": ("twopc.errors", "InDoubtError"),
    "OrderRun": ("sim.testing.orders", "OrderRun"),
    "Orders": ("sim.testing.orders", "Orders"),
    "Result": ("sim.testing.results", "Result"),
    "Rows": ("sim.testing.results", "Rows"),
    "Server": ("sim.testing.servers", "Server"),
    "Started": ("sim.testing.session", "Started"),
    "TestNode": ("sim.testing.blocking", "TestNode"),
    "TestSession": ("sim.testing.session", "TestSession"),
    "TestTopology": ("sim.testing.blocking", "TestTopology"),
    "TopologyMachine": ("sim.testing.machine", "TopologyMachine"),
    "Watched": ("sim.testing.session", "Watched"),
    "topology": ("sim.pytest_plugin.factory", "topology"),
}


def __getattr__(name: str) -> Any:
    """Each name is loaded at its first use: a conftest that imports one pays for that one."""
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'sim.testing' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(place[0])
    return getattr(module, place[1])
