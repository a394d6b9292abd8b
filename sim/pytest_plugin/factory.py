"""A factory of user-defined fixtures: ``shop = twopc.sim.testing.topology(subscribers=3, load=[…],
scope="module")``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import pytest

from twopc.sim.pytest_plugin.fixtures import give_back, open_topology
from twopc.sim.pytest_plugin.marks import options_of

if TYPE_CHECKING:
    from twopc.sim.testing.bench import Bench, Reset
    from twopc.sim.testing.blocking_bench import TestTopology

Scope = Literal["function", "class", "module", "package", "session"]

_COLLECTORS = {
    "class": pytest.Class,
    "module": pytest.Module,
    "package": pytest.Package,
    "session": pytest.Session,
}


#: Requests whose topologies are dropped at the end of a scope.
_CLOSING = pytest.StashKey[set[Any]]()


class NotResetWarning(pytest.PytestWarning):
    """Tests share a topology that is not reset: each sees the changes of those before it."""


def topology(*, scope: Scope = "function", reset: Reset = "truncate", **options: Any) -> Any:
    """Create a fixture that returns a `TestTopology`.

    Args:
        scope: how long the same databases are kept.
        reset: action between the tests of that scope. ``truncate`` restores every row; if more than rows has
            changed, the next test gets new databases. ``clone`` gives each test new databases. ``none`` leaves
            everything; other fixtures of its scope can then use the fixture, and a scope wider than a function
            causes one warning.
        options: of the mark ``twopc``: subscribers, load, publish, isolation, any_client, policy, shipping, commit,
            seed.
    """
    asked = options | {"reset": reset}
    if scope == "function" or reset == "clone":

        @pytest.fixture
        def fresh(twopc_factory: Callable[..., TestTopology]) -> TestTopology:
            return twopc_factory(**asked)

        return fresh
    if reset == "none":
        return _shared(scope, asked)
    return _kept(scope, asked)


def _shared(scope: Scope, options: dict[str, Any]) -> Any:
    """Create a fixture with one topology for the whole scope, which is not reset."""
    warned: list[bool] = []

    @pytest.fixture(scope=scope)
    def shared(
        request: pytest.FixtureRequest, twopc_bench: Bench, twopc_template: Any
    ) -> Iterator[TestTopology]:
        if not warned:
            warned.append(True)
            warnings.warn(
                NotResetWarning(
                    f"the tests of a {scope} share a topology that nothing puts back (reset='none'): each sees "
                    "what those before it have left, and they cannot be run alone or in another order. "
                    "reset='truncate' puts every row back before the next"
                ),
                stacklevel=2,
            )
        asked = options_of((), options)  # marks belong to tests
        made, requested = open_topology(request, twopc_bench, twopc_template, asked)
        yield made
        give_back(request.node, twopc_bench, made, requested, "none")

    return shared


def _kept(scope: Scope, options: dict[str, Any]) -> Any:
    """Create a fixture with the same databases for the whole scope, reset for each test."""

    @pytest.fixture
    def kept(
        request: pytest.FixtureRequest, twopc_bench: Bench, twopc_template: Any
    ) -> Iterator[TestTopology]:
        home = request.node.getparent(_COLLECTORS[scope]) or request.session
        asked = options_of(request.node.iter_markers("twopc"), options)
        made, requested = open_topology(
            request, twopc_bench, twopc_template, asked, group=f"{home.nodeid} {id(options)}"
        )
        closing = home.stash.setdefault(_CLOSING, set())
        if requested not in closing:
            closing.add(requested)
            home.addfinalizer(lambda: twopc_bench.close_pool(requested))
        yield made
        give_back(request.node, twopc_bench, made, requested, asked.reset)

    return kept
