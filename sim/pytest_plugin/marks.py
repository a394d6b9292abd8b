"""The marks: what a test says of its topology."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from twopc.sim.testing.bench import Reset, TopologyRequest

MARKERS = {
    "twopc(subscribers=2, load=…, publish=…, isolation=…, shipping=…, commit=…, any_client=False, policy='reject', faults=[…], "
    "seed=…, reset='truncate')": "what the topology of the fixture twopc is like",
    "twopc_merge(subscribers=2, tree=…, load=…, publish=…, tracking='row', lock_timeout_ms=5000)": (
        "what the topology of the fixture twopc_merge is like"
    ),
    "twopc_scenario(file, orders='')": "the scenario file that the fixture twopc_run plays, and which of its orders",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkOptions:
    """What a test wants."""

    subscribers: Any = 2
    """How many, or their names."""
    load: Any = None
    """None: as `twopc_template` says."""
    publish: Any = None
    isolation: str | None = None
    """Of its sessions."""
    shipping: str = "eager"
    commit: str = "presumed_abort"
    lock_timeout_ms: int = 5_000
    any_client: Any = None
    """Clients without a coordinator may write: at every Subscriber, or at those named; None: as the ini file says."""
    policy: str = "reject"
    """What becomes of a change that comes too late: the only one that there is."""
    faults: Any = ()
    """What goes wrong, from the beginning on: ``at`` and ``do`` of each, as in scenario files."""
    seed: int | None = None
    reset: Reset = "truncate"
    """``truncate`` puts rows back, and makes anew where that is not enough; ``clone`` gives databases that nobody
    has used; ``none`` leaves everything, for a fixture of a wider scope."""

    def request(
        self, template: Any, group: str = "", *, any_client: bool = False
    ) -> TopologyRequest:
        """What the topology is made like.

        Args:
            group: those of another group never get the same databases.
            any_client: what holds where nothing was said of clients without a coordinator.
        """
        from twopc.sim.testing.bench import TopologyRequest

        chosen = any_client if self.any_client is None else self.any_client
        loads = template if self.load is None else self.load
        return TopologyRequest(
            subscribers=self.subscribers
            if isinstance(self.subscribers, int)
            else tuple(self.subscribers),
            load=tuple(loads) if isinstance(loads, list | tuple) else (loads,),
            publish=None if self.publish is None else tuple(self.publish),
            shipping=self.shipping,
            commit=self.commit,
            lock_timeout_ms=self.lock_timeout_ms,
            any_client=chosen if isinstance(chosen, bool) else tuple(chosen),
            used_once=self.reset == "clone",
            group=group,
        )


def wrong(message: str) -> BaseException:
    """A mistake of the test's author: said without a traceback, since it is none of ours."""
    return pytest.fail.Exception(message, pytrace=False)


def options_of(item: Any, options: dict[str, Any]) -> MarkOptions:
    """What is asked for: by arguments, else by the nearest mark, else as always.

    Raises:
        pytest.fail.Exception: an option is not known, or not possible.
    """
    asked = MarkOptions()
    for mark in reversed(list(item.iter_markers("twopc"))):
        if mark.args:
            raise wrong("@pytest.mark.twopc takes named options only, as subscribers=3")
        asked = _with(asked, mark.kwargs, "@pytest.mark.twopc")
    return _with(asked, options, "twopc_factory")


def _with(asked: MarkOptions, options: dict[str, Any], where: str) -> MarkOptions:
    known = [field.name for field in fields(MarkOptions)]
    for name in options:
        if name not in known:
            raise wrong(f"{where}: no option {name!r}; options are {', '.join(known)}")
    made = replace(asked, **options)
    if made.policy != "reject":
        raise wrong(
            f"{where}: policy={made.policy!r}: a change that comes too late is always refused ('reject')"
        )
    if isinstance(made.any_client, str):
        raise wrong(
            f"{where}: any_client={made.any_client!r}: True, or a list of Subscribers: [{made.any_client!r}]"
        )
    if not all(isinstance(fault, dict) for fault in made.faults):
        raise wrong(
            f"{where}: faults={made.faults!r}: each is written as in scenario files, "
            "{'at': 'coordinator.decision_logged', 'do': 'crash coordinator'}"
        )
    if made.reset not in ("clone", "truncate", "none"):
        raise wrong(f"{where}: reset={made.reset!r}: 'clone', 'truncate' or 'none'")
    return made
