"""A load that is played once more from its own history, as a file asks for it."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from twopc.sim.scenario.expectations import Count
from twopc.sim.scenario.parts import Part
from twopc.sim.scenario.text import Number

#: What can come out otherwise: see `twopc.sim.workload.redoing`.
Divergent = Literal["outcome", "rowcount", "state"]


class ReplayExpect(Part):
    """What must come of a replay."""

    what = "what is expected of a replay"
    blank: ClassVar[dict[str, Any]] = {"divergence": Number("0")}
    divergence: Count
    """How much may, or must, come out otherwise than it was recorded."""
    classes: tuple[Divergent, ...] = ()
    """What of it counts: `outcome`, transactions that end otherwise; `rowcount`, statements that meet another number of rows;
    `state`, rows that differ at the end. None: all."""


class Replay(Part):
    """The load's committed transactions, carried out once more where everything is as it was at first."""

    what = "a replay"
    blank: ClassVar[dict[str, Any]] = {"sync": "commit", "expect": {"divergence": Number("0")}}
    sync: Literal["commit", "rows", "session", "off"] = "rows"
    """`commit`, `rows`: in the order of their commits, each once its Subscriber has got everything; `session`: each session
    in its order, beside the others; `off`: in no order. With both of these nobody gets anything meanwhile."""
    expect: ReplayExpect
    """What must come of it."""
