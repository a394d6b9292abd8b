"""The marks, with which a test specifies its topology."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
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
    """The options of a test's topology."""

    subscribers: Any = 2
    """Number of Subscribers, or their names."""
    load: Any = None
    """Template; None: the value of `twopc_template`."""
    publish: Any = None
    isolation: str | None = None
    """Isolation level of the test's sessions."""
    shipping: str = "eager"
    commit: str = "presumed_abort"
    lock_timeout_ms: int = 5_000
    any_client: Any = None
    """Whether any client may write at every Subscriber, or the Subscribers at which any client may; None: as in the
    ini file.
    """
    policy: str = "reject"
    """Treatment of a change that comes too late; ``reject`` is the only one."""
    faults: Any = ()
    """Faults armed from the beginning: ``at`` and ``do`` of each, as in scenario files."""
    seed: int | None = None
    reset: Reset = "truncate"
    """``truncate`` restores rows, and creates databases anew if that is not enough; ``clone`` gives unused
    databases; ``none`` leaves everything, for a fixture of a wider scope.
    """

    def request(
        self, template: Any, group: str = "", *, any_client: bool = False
    ) -> TopologyRequest:
        """Return the request for a topology.

        Args:
            group: requests of different groups never share databases.
            any_client: default if the options do not specify it.
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
    """Return the exception for a mistake of the test's author, which is shown without a traceback."""
    return pytest.fail.Exception(message, pytrace=False)


def options_of(marks: Iterable[pytest.Mark], options: Mapping[str, Any]) -> MarkOptions:
    """Return the options: from the arguments, else from the marks, the nearest first, else the defaults.

    Raises:
        pytest.fail.Exception: an option is unknown or invalid.
    """
    asked = MarkOptions()
    for mark in reversed(list(marks)):
        if mark.args:
            raise wrong("@pytest.mark.twopc takes named options only, as subscribers=3")
        asked = _with(asked, mark.kwargs, "@pytest.mark.twopc")
    return _with(asked, options, "twopc_factory")


def _with(asked: MarkOptions, options: Mapping[str, Any], where: str) -> MarkOptions:
    known = [field.name for field in fields(MarkOptions)]
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            meant = f", did you mean {near[0]!r}?" if near else ";"
            raise wrong(f"{where}: no option {name!r}{meant} options are {', '.join(known)}")
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
    for name, words in _words().items():
        value = getattr(made, name)
        if value not in words:
            usable = ", ".join(repr(each) for each in words if each is not None)
            raise wrong(f"{where}: {name}={value!r}: use one of {usable}")
    if isinstance(made.subscribers, str):
        raise wrong(
            f"{where}: subscribers={made.subscribers!r}: a number, or a list: [{made.subscribers!r}]"
        )
    timeout: object = made.lock_timeout_ms
    if not isinstance(timeout, int) or timeout < 1:
        raise wrong(f"{where}: lock_timeout_ms={timeout!r}: milliseconds, from 1")
    return made


def _words() -> Mapping[str, Sequence[str | None]]:
    """Return the values of those options that take one of several words."""
    from twopc.drivers.plan import SHIPPING  # late, as it loads psycopg
    from twopc.protocol import VARIANTS
    from twopc.sim.sessions.local import LEVELS

    return {
        "reset": ("clone", "truncate", "none"),
        "isolation": (None, *LEVELS),
        "shipping": SHIPPING,
        "commit": tuple(VARIANTS),
    }
