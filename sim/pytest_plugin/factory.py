"""Named fixtures of one's own: ``shop = twopc.sim.testing.topology(subscribers=3, load=[…], scope="module")``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import pytest

from twopc.sim.pytest_plugin.fixtures import give_back, open_topology
from twopc.sim.pytest_plugin.marks import MarkOptions, options_of

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


#: What a scope has that is dropped at its end.
_CLOSING = pytest.StashKey[set[Any]]()


class NotResetWarning(pytest.PytestWarning):
    """Tests share a topology that nothing puts back: each sees what those before it have left."""


def topology(*, scope: Scope = "function", reset: Reset = "truncate", **options: Any) -> Any:
    """A fixture that gives a `TestTopology`.

    Args:
        scope: how long the same databases are kept.
        reset: what happens between the tests of that scope. ``truncate`` puts every row back; if more than rows
            has changed, the next test gets new databases. ``clone`` gives each test new databases. ``none`` leaves
            everything; the fixture can then be used by others of its scope, and a scope wider than a function warns
            once.
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
    """One for the whole scope, as it is."""
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
        made, requested = open_topology(request, twopc_bench, twopc_template, _asked(options))
        yield made
        give_back(request.node, twopc_bench, made, requested, "none")

    return shared


def _asked(options: dict[str, Any]) -> MarkOptions:
    """The options of a fixture alone: marks are of tests."""

    class _Nobody:
        @staticmethod
        def iter_markers(_: str) -> Iterator[Any]:
            return iter(())

    return options_of(_Nobody, options)


def _kept(scope: Scope, options: dict[str, Any]) -> Any:
    """The same databases for the whole scope, put back for each test."""

    @pytest.fixture
    def kept(
        request: pytest.FixtureRequest, twopc_bench: Bench, twopc_template: Any
    ) -> Iterator[TestTopology]:
        home = request.node.getparent(_COLLECTORS[scope]) or request.session
        asked = options_of(request.node, options)
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
