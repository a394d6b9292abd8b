"""Tests of two-phase commit, and of an application's race conditions, on real PostgreSQL.

With pytest, everything is provided by fixtures (`twopc`, `twopc_factory` …, see docs/testing.md). This module
exports the names that a test or a conftest imports; `twopc.sim.testing.strategies` and the machines are for
Hypothesis. Importing this module starts nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twopc.errors import ConflictError as Conflict
    from twopc.errors import InDoubtError as InDoubt
    from twopc.sim.pytest_plugin.factory import topology
    from twopc.sim.sessions.results import Result, Rows
    from twopc.sim.testing.asynchronous import AsyncTestTopology
    from twopc.sim.testing.bench_tables import publisher_url
    from twopc.sim.testing.blocking_bench import TestNode, TestTopology
    from twopc.sim.testing.machine import TopologyMachine as TopologyMachine
    from twopc.sim.testing.merge_doubles import AsyncTestMerge, TestMerge
    from twopc.sim.testing.merge_machine import MergeMachine as MergeMachine
    from twopc.sim.testing.orders import OrderRun, Orders
    from twopc.sim.testing.servers import Server
    from twopc.sim.testing.session import Started, TestSession, Watched
    from twopc.sim.testing.templates import (
        AlembicMigrations,
        DjangoMigrations,
        SqlAlchemyTables,
        SqlScript,
    )

#: All but `TopologyMachine` and `MergeMachine`, which need Hypothesis.
__all__ = [
    "AlembicMigrations",
    "AsyncTestMerge",
    "AsyncTestTopology",
    "Conflict",
    "DjangoMigrations",
    "InDoubt",
    "OrderRun",
    "Orders",
    "Result",
    "Rows",
    "Server",
    "SqlAlchemyTables",
    "SqlScript",
    "Started",
    "TestMerge",
    "TestNode",
    "TestSession",
    "TestTopology",
    "Watched",
    "publisher_url",
    "topology",
]

#: Module and attribute of each exported name.
_PLACES = {
    "AlembicMigrations": ("twopc.sim.testing.templates", "AlembicMigrations"),
    "AsyncTestMerge": ("twopc.sim.testing.merge_doubles", "AsyncTestMerge"),
    "AsyncTestTopology": ("twopc.sim.testing.asynchronous", "AsyncTestTopology"),
    "Conflict": ("twopc.errors", "ConflictError"),
    "DjangoMigrations": ("twopc.sim.testing.templates", "DjangoMigrations"),
    "InDoubt": ("twopc.errors", "InDoubtError"),
    "MergeMachine": ("twopc.sim.testing.merge_machine", "MergeMachine"),
    "OrderRun": ("twopc.sim.testing.orders", "OrderRun"),
    "Orders": ("twopc.sim.testing.orders", "Orders"),
    "Result": ("twopc.sim.sessions.results", "Result"),
    "Rows": ("twopc.sim.sessions.results", "Rows"),
    "Server": ("twopc.sim.testing.servers", "Server"),
    "SqlAlchemyTables": ("twopc.sim.testing.templates", "SqlAlchemyTables"),
    "SqlScript": ("twopc.sim.testing.templates", "SqlScript"),
    "Started": ("twopc.sim.testing.session", "Started"),
    "TestMerge": ("twopc.sim.testing.merge_doubles", "TestMerge"),
    "TestNode": ("twopc.sim.testing.blocking_bench", "TestNode"),
    "TestSession": ("twopc.sim.testing.session", "TestSession"),
    "TestTopology": ("twopc.sim.testing.blocking_bench", "TestTopology"),
    "TopologyMachine": ("twopc.sim.testing.machine", "TopologyMachine"),
    "Watched": ("twopc.sim.testing.session", "Watched"),
    "publisher_url": ("twopc.sim.testing.bench_tables", "publisher_url"),
    "topology": ("twopc.sim.pytest_plugin.factory", "topology"),
}


def __getattr__(name: str) -> Any:
    """Import an exported name at its first use, so that a conftest loads only the modules that it needs."""
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'twopc.sim.testing' has no attribute {name!r}")
    from importlib import import_module  # only if a name is used

    try:
        module = import_module(place[0])
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "hypothesis":
            raise
        raise ImportError(f"{name} needs Hypothesis: pip install 'twopc[hypothesis]'") from None
    return getattr(module, place[1])
