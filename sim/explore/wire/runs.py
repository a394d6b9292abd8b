"""Orders that are played, as a page and its server tell each other of them: see `twopc.sim.explore.wire`."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # by which pydantic reads requests

from twopc.sim.explore.wire.files import RequestNumber, WireItem

#: Every state of a run by its key, see `WireRun.states`.
StateDelta = dict[str, dict[str, Any] | None]


class WireFault(TypedDict):
    """A fault that is placed by hand, armed from the beginning."""

    at: str
    """A `WirePoint.point`."""
    do: str
    nth: NotRequired[RequestNumber]
    """At which arrival, from 1."""
    session: NotRequired[str]
    """Only at arrivals of this session's transactions."""


class PlayVariant(TypedDict):
    """What is played, besides the text."""

    order: list[WireItem]
    listed: NotRequired[str]
    """The `ListedOrder` that it is, or that it was made of: of that are its cell of the matrix, the faults that it arms
    and its isolation. Without it: the first cell's, no faults, and isolation as the topology says."""
    switches: NotRequired[dict[str, str]]
    """By `WireSwitch.name`; those that are as in the order may be left out."""
    faults: NotRequired[list[WireFault]]


class PlayRequest(PlayVariant):
    """An order to be played."""

    path: str
    text: NotRequired[str | None]
    """Without it: as the file is saved."""
    before: NotRequired[PlayVariant | None]
    """What was shown before: told is what has become otherwise."""


class OrdersRequest(TypedDict):
    """All feasible orders to be played."""

    path: str
    text: NotRequired[str | None]
    sessions: NotRequired[list[str]]
    """Those that take part; all."""
    listed: NotRequired[str]
    """As of `PlayVariant`."""
    switches: NotRequired[dict[str, str]]
    faults: NotRequired[list[WireFault]]
    limit: NotRequired[RequestNumber]
    """At most so many are played."""


class WireCard(TypedDict):
    """A step, or a sync of the order's own, as it was played."""

    step: str
    session: str
    """Empty: the agents'."""
    item: int
    """Its place in the order, from 0; -1: the delivery after the last step."""
    state: Literal["ok", "waited", "refused", "failed", "skipped", "waiting", "not_played"]
    """``waited``: it waited and was done; ``refused``: a conflict, or what it brought about, ``failed``: another error;
    ``waiting``: it still waited when the order ended; ``not_played``: the order did not come so far."""
    text: str
    """What it does."""
    began_ms: float | None
    """Since the order began; None: it was not sent."""
    ended_ms: float | None
    moment: int
    """At which it was sent; -1: never."""
    end_moment: int
    """At which it had ended; -1: never."""
    waits_for: str
    """``alice (a_write)``; empty if it did not wait."""
    result: str
    """What it returned or was refused with, in short."""
    because: str
    however: str


class WireAgent(TypedDict):
    """Something that an agent or recovery did."""

    at_ms: float
    """Since the order began."""
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
    """Something happened."""

    at_ms: float
    event: str
    """``initial``, ``sent``, ``ended``, ``waits``, ``message``, ``arrived``, ``point``, ``decision``, ``deliver``,
    ``fault``, ``end``, …"""
    text: str
    step: str
    """That it belongs to; empty if to none."""
    changed: list[str]
    """The keys of `WireRun.states` that are otherwise than before."""


class WireInvariant(TypedDict):
    """Something that must always hold."""

    name: str
    holds: bool
    means: str
    """What must hold."""
    text: str
    """What is broken; empty if nothing is."""
    because: str
    however: str


class WireFailure(TypedDict):
    """An expectation of the file that was not met."""

    check: str
    message: str
    because: str
    however: str


class Infeasible(TypedDict):
    """Where an order stops being possible."""

    at: int
    """The entry of the order, from 0."""
    reason: str


class WireArrival(TypedDict):
    """Somebody came by a point of the protocol: here a fault can be placed."""

    point: str
    nth: int
    at_ms: float
    moment: int
    session: str


class WireRun(TypedDict):
    """An order as it was played."""

    on: Literal["model", "postgres"]
    order: list[WireItem]
    possible: Literal[True] | Infeasible
    cards: list[WireCard]
    agents: list[WireAgent]
    moments: list[WireMoment]
    states: list[StateDelta]
    """As many as moments: at each, what is otherwise, by key; None: it is gone. The first has everything. Keys:

    ``session/alice``           {node, text, style}
    ``node/sub1``               {up, reached}
    ``row/pub/account/id=1``    {exists, values: {column: text}, version, label, uncommitted: [{values, version, label,
                                by, state, gone}], locked_by: [{by, mode}], waiting: [session], stale}; `exists`: it is
                                committed; `state`: ``open`` or ``prepared``; `stale`: not as at the Publisher
    ``lock/pub/alice/…``        {session, what, mode, granted, waits_for: [...]}; of tables, and all that wait
    ``prepared/pub/gid``        {gid, by}
    ``marker/pub/gid``          {gid, by, fence, participants}
    ``decision/gid``            {gid, by, decision, participants}
    ``reader``                  {read, behind}; in transactions, as those of agents
    ``stored/1``                {number, origin, commands}; `commands`: how many
    ``agent/sub1``              {delivered, behind, state}
    ``message/1``               `WireMessage`, while it is on its way
    ``generation/anna/1``       {number, rows, upto}; where changes are merged
    ``metadata/anna/t/id=1``    {lineage: {replica: version}, writer, gone}; likewise
    ``neighbour/anna/pub``      {sent, received, coming}; likewise
    """
    messages: list[WireMessage]
    """All of them."""
    arrivals: list[WireArrival]
    invariants: list[WireInvariant]
    failures: list[WireFailure]
    story: list[str]
    """In sentences."""
    outcomes: dict[str, str]
    """By session: ``committed``, ``rolled back``, ``in doubt``."""
    outcome: str
    """All of it in one sentence."""
    behaviour: str
    """The same for orders that came to the same."""
    elapsed_ms: float
    """That it took to play it, in the world's time."""


class PlayAnswer(TypedDict):
    """An order that was played, and what it differs in."""

    run: WireRun
    listed: str
    """The `ListedOrder` that it was: of its steps, faults and isolation; empty: none."""
    compared: str | None
    """What has become otherwise than before, in one sentence; None: there is nothing to compare with."""


class WireDifference(TypedDict):
    """The first in which two plays differ."""

    about: str
    model: str
    postgres: str
    text: str
    step: str
    """The card that it is about; empty if it is about none."""


class PostgresAnswer(TypedDict):
    """An order on real servers, beside the same on the model."""

    run: WireRun
    model: WireRun
    first_difference: WireDifference | None
    differences: int
    chosen: str
    """What PostgreSQL may choose, and has chosen otherwise: then nothing else is compared; else empty."""


class WireBehaviour(TypedDict):
    """Orders that came to the same."""

    id: str
    order: list[WireItem]
    """The first of them."""
    count: int
    """Of those that were played."""
    outcomes: dict[str, str]
    text: str
    holds: bool
    """All invariants."""
    broken: list[str]
    """Those that do not hold."""
    waits: list[str]
    """``b_write waits for alice (a_write) at pub``"""
    refused: list[str]
    """Steps that were refused."""


class OrdersEvent(TypedDict):
    """The data of one event of `/api/orders`."""

    event: Literal["progress", "behaviour", "done", "failed"]
    """The event's name, too; ``behaviour``: a new one, or more of one that is known."""
    orders: int
    """That there are, by the sequence of each session's own steps."""
    run: int
    infeasible: int
    left_out: int
    behaviour: NotRequired[WireBehaviour]
    why: NotRequired[str]
    """With ``done``: why some are left out, or ``stopped``; with ``failed``: what is wrong."""


class ExportRequest(PlayVariant):
    """What is shown, to be kept."""

    path: str
    text: NotRequired[str | None]
    kind: Literal["scenario", "pytest", "html", "link"]
    name: NotRequired[str]
    """Of the new order."""


class ExportedText(TypedDict):
    """A file to be kept wherever somebody likes: the server writes nothing."""

    filename: str
    media_type: str
    text: str
    remarks: list[str]
    """What could not be kept: a fault placed by hand in a pytest, for instance."""
