"""Plugins and hooks of all tests."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.fix_log import loggers_restored

#: Not to be collected: broken files, fragments of files, and a project with tests of its own.
collect_ignore_glob = [
    "scenario/bad/*",
    "scenario/fragments/*",
    "plugin/examples",
    "plugin/orm_examples",
]

pytest_plugins = [
    "tests.fix_golden",
    "tests.fix_sample",
    "tests.fix_slow",
    "tests.fix_server",
    "tests.fix_topology",
    "tests.fix_link",
    "tests.fix_merge",
    "tests.fix_page",
    "tests.fix_pgbouncer",
    "tests.fix_spark",
]

# Tests may be slow on a slow machine.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell ignores SIGINT in background processes; processes that tests interrupt would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without the garbage collector, which would later scan all of them repeatedly."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    """Restore the loggers after a test: a command run in this process would silence what later tests expect."""
    del item
    with loggers_restored():
        return (yield)


_STARTS_SERVERS = {"server", "two_servers", "rig", "on"}


@pytest.hookimpl(tryfirst=True)  # before xdist names the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a PostgreSQL server, and group those that share a module's fixtures on one worker."""
    for item in items:
        if _STARTS_SERVERS & set(getattr(item, "fixturenames", ())):
            item.add_marker("postgres")
        if not item.get_closest_marker("xdist_group") and _shares_what_its_module_makes(item):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


def _shares_what_its_module_makes(item: pytest.Item) -> bool:
    """Return whether another worker would have to set up a fixture of the module again."""
    fixtures = getattr(item, "_fixtureinfo", None)
    return fixtures is not None and any(
        fixture.scope == "module"
        for known in fixtures.name2fixturedefs.values()
        for fixture in known[-1:]
    )
