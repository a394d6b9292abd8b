"""Types for plays in the protocol between page and server: see `twopc.sim.explore.wire`."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # as pydantic requires

from twopc.sim.explore.wire.files import RequestNumber, WireItem

#: Every state of a run by its key, see `WireRun.states`.
StateDelta = dict[str, dict[str, Any] | None]


class WireFault(TypedDict):
    """A fault placed by hand, armed from the beginning."""

    at: str
    """A `WirePoint.point`."""
    do: str
    nth: NotRequired[RequestNumber]
    """Number of the arrival at which the fault strikes, from 1."""
    session: NotRequired[str]
    """Only arrivals of this session's transactions count."""


class PlayVariant(TypedDict):
    """What is played, apart from the text."""

    order: list[WireItem]
    listed: NotRequired[str]
    """Name of the `ListedOrder` that is played, or from which the order was made: it provides the cell, the armed
    faults and the isolation. Default: the first cell, no faults, and the topology's isolation.
    """
    switches: NotRequired[dict[str, str]]
    """Values by `WireSwitch.name`; unchanged ones may be omitted."""
    faults: NotRequired[list[WireFault]]


class PlayRequest(PlayVariant):
    """A request to play an order."""

    path: str
    text: NotRequired[str | None]
    """Default: the text of the saved file."""
    before: NotRequired[PlayVariant | None]
    """The variant shown before, with which the run is compared."""


class OrdersRequest(TypedDict):
    """A request to play all feasible orders."""

    path: str
    text: NotRequired[str | None]
    sessions: NotRequired[list[str]]
    """Sessions that take part; default: all."""
    listed: NotRequired[str]
    """See `PlayVariant.listed`."""
    switches: NotRequired[dict[str, str]]
    faults: NotRequired[list[WireFault]]
    limit: NotRequired[RequestNumber]
    """Maximum number of orders that are played."""


class WireCard(TypedDict):
    """A step, or a sync of the order, as it was played."""

    step: str
    session: str
    """Session of the step; empty: a sync."""
    item: int
    """Place in the order, from 0; -1: the delivery after the last step."""
    state: Literal["ok", "waited", "refused", "failed", "skipped", "waiting", "not_played"]
    """State of the step. ``waited``: done after a wait; ``refused``: by a conflict, or as a consequence of one;
    ``failed``: another error; ``waiting``: still waiting when the order ended; ``not_played``: the order ended
    before.
    """
    text: str
    """What the step does."""
    began_ms: float | None
    """Time since the order began; None: the step was not sent."""
    ended_ms: float | None
    moment: int
    """Moment at which the step was sent; -1: never."""
    end_moment: int
    """Moment at which the step had ended; -1: never."""
    waits_for: str
    """``alice (a_write)``; empty if the step did not wait."""
    result: str
    """Short form of the result or of the refusal."""
    because: str
    however: str


class WireAgent(TypedDict):
    """An action of an agent or of recovery."""

    at_ms: float
    """Time since the order began."""
    moment: int
    node: str
    kind: Literal["deliver", "suppress", "skip", "echo", "settled", "merge_session", "merge_conflict"]  # fmt: skip
    text: str


class WireMessage(TypedDict):
    """A message between two places."""

    sender: str
    """A node, ``distribution``, ``coordinator``, ``log reader``, ``agent of sub1``, or a session."""
    receiver: str
    kind: Literal["message", "reply"]
    text: str
    sent_ms: float
    arrives_ms: float


class WireMoment(TypedDict):
    """An event of the run."""

    at_ms: float
    event: str
    """``initial``, ``sent``, ``ended``, ``waits``, ``message``, ``arrived``, ``point``, ``decision``, ``deliver``,
    ``fault``, ``end``, …"""
    text: str
    step: str
    """Step to which the event belongs; empty if there is none."""
    changed: list[str]
    """Keys of `WireRun.states` that have changed."""


class WireInvariant(TypedDict):
    """An invariant of the order."""

    name: str
    holds: bool
    means: str
    """What must hold."""
    text: str
    """What is broken; empty if the invariant holds."""
    because: str
    however: str


class WireFailure(TypedDict):
    """An unmet expectation of the file."""

    check: str
    message: str
    because: str
    however: str


class Infeasible(TypedDict):
    """The place at which an order is not possible."""

    at: int
    """Number of the order's entry, from 0."""
    reason: str


class WireArrival(TypedDict):
    """The arrival of a process at a point of the protocol, where a fault can be placed."""

    point: str
    nth: int
    at_ms: float
    moment: int
    session: str


class WireRun(TypedDict):
    """A played order."""

    on: Literal["model", "postgres"]
    order: list[WireItem]
    possible: Literal[True] | Infeasible
    cards: list[WireCard]
    agents: list[WireAgent]
    moments: list[WireMoment]
    states: list[StateDelta]
    """One delta per moment: the states that have changed, by key; None: removed. The first one is complete. Keys:

    ``session/alice``           {node, text, style}
    ``node/sub1``               {up, reached}
    ``row/pub/account/id=1``    {exists, values: {column: text}, version, label, uncommitted: [{values, version, label,
                                by, state, gone}], locked_by: [{by, mode}], waiting: [session], stale}; `exists`: whether
                                committed; `state`: ``open`` or ``prepared``; `stale`: differs from the Publisher's
    ``lock/pub/alice/…``        {session, what, mode, granted, waits_for: [...]}; table locks, and all waits
    ``prepared/pub/gid``        {gid, by}
    ``marker/pub/gid``          {gid, by, fence, participants}
    ``decision/gid``            {gid, by, decision, participants}
    ``reader``                  {read, behind}; both in transactions, as for agents
    ``stored/1``                {number, origin, commands}; `commands`: their number
    ``agent/sub1``              {delivered, behind, state}
    ``message/1``               `WireMessage`, while it is in transit
    ``generation/anna/1``       {number, rows, upto}; this and the following only in merge replication
    ``metadata/anna/t/id=1``    {lineage: {replica: version}, writer, gone}
    ``neighbour/anna/pub``      {sent, received, coming}
    """
    messages: list[WireMessage]
    """All messages."""
    arrivals: list[WireArrival]
    invariants: list[WireInvariant]
    failures: list[WireFailure]
    story: list[str]
    """Sentences about the run."""
    outcomes: dict[str, str]
    """Outcomes by session: ``committed``, ``rolled back``, ``in doubt``."""
    outcome: str
    """All outcomes in one sentence."""
    behaviour: str
    """Fingerprint of the behaviour, equal for orders with the same behaviour."""
    elapsed_ms: float
    """Duration of the play in real time."""


class PlayAnswer(TypedDict):
    """A played order, and how it differs from the one before."""

    run: WireRun
    listed: str
    """Name of the `ListedOrder` with the same steps, faults and isolation; empty: there is none."""
    compared: str | None
    """The differences from the variant before, in one sentence; None: there was none."""


class WireDifference(TypedDict):
    """The first difference between two plays."""

    about: str
    model: str
    postgres: str
    text: str
    step: str
    """Step of the card concerned; empty if there is none."""


class PostgresAnswer(TypedDict):
    """An order on real servers, and the same order on the model."""

    run: WireRun
    model: WireRun
    first_difference: WireDifference | None
    differences: int
    chosen: str
    """A permitted choice that PostgreSQL made differently, so that nothing else is compared; else empty."""


class WireBehaviour(TypedDict):
    """Orders with the same behaviour."""

    id: str
    order: list[WireItem]
    """The first of these orders."""
    count: int
    """Number of these orders among those played."""
    outcomes: dict[str, str]
    text: str
    holds: bool
    """Whether all invariants hold."""
    broken: list[str]
    """Invariants that do not hold."""
    waits: list[str]
    """``b_write waits for alice (a_write) at pub``"""
    refused: list[str]
    """Steps that were refused."""


class OrdersEvent(TypedDict):
    """Data of one event of `/api/orders`."""

    event: Literal["progress", "behaviour", "done", "failed"]
    """Name of the event; ``behaviour``: a new behaviour, or further orders of a known one."""
    orders: int
    """Number of all orders that keep the sequence of each session's steps."""
    run: int
    infeasible: int
    left_out: int
    behaviour: NotRequired[WireBehaviour]
    why: NotRequired[str]
    """With ``done``: why orders are left out, or ``stopped``; with ``failed``: the error."""


class ExportRequest(PlayVariant):
    """A request to export the order that is shown."""

    path: str
    text: NotRequired[str | None]
    kind: Literal["scenario", "pytest", "html", "link"]
    name: NotRequired[str]
    """Name of the new order."""


class ExportedText(TypedDict):
    """A file for the user to save: the server writes nothing."""

    filename: str
    media_type: str
    text: str
    remarks: list[str]
    """What the file lacks, such as a fault placed by hand in a pytest."""
