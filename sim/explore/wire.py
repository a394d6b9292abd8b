"""What the explorer's page and its server say to each other: JSON, by path and method.

Every request carries the link's token in the header `TOKEN_HEADER`; what is no ``2xx`` has a `Refusal` as its body.

=====  =================  =======================  ===========================================================
GET    /api/files                                  `FileListing`
GET    /api/file          ``?path=``               `FileContent`; 404 there is no such file
POST   /api/check         `CheckRequest`           `FileContent` of a text that is not saved
PUT    /api/file          `SaveRequest`            `SavedFile`; 409 the file has changed meanwhile
POST   /api/play          `PlayRequest`            `PlayAnswer`; 422 the text has errors, or a switch cannot be so
POST   /api/orders        `OrdersRequest`          server-sent events, each an `OrdersEvent`; ends by itself, by
                                                   `stop`, and when whoever asked goes away
POST   /api/postgres      `PlayRequest`            `PostgresAnswer`
POST   /api/stop          `StopRequest`            204; what is stopped answers 503 with a `Refusal`
POST   /api/export        `ExportRequest`          `ExportedText`
GET    /api/schema                                 the JSON schema of scenario files
GET    /api/templates                              `TemplateListing`
GET    /api/lessons                                what `twopc lessons` knows
=====  =================  =======================  ===========================================================

`twopc explore --export DIR` writes the same as files: see `StaticIndex`.

Values only: nothing here plays, reads or serves.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

#: The header that carries the token of the link.
TOKEN_HEADER = "X-Twopc-Token"  # noqa: S105 - a header's name
#: One entry of an order: the name of a step, or what an order's item may be besides, as in a file:
#: ``{"sync": ["sub2"]}``, ``{"cut": "sub1"}``, ``{"fault": "lost"}``.
WireItem = str | dict[str, Any]
#: Every state of a run by its key, see `WireRun.states`.
StateDelta = dict[str, dict[str, Any] | None]


class Refusal(TypedDict):
    """Why a request was not done; nothing is changed."""

    error: str
    """In words, with what would help."""
    kind: Literal[
        "token", "origin", "request", "path", "missing", "changed", "scenario", "switch", "stopped",
        "died", "server",
    ]  # fmt: skip
    """``stopped``: somebody has stopped it; ``died``: what worked on it has died, and another one has taken its place."""
    errors: NotRequired[list[WireProblem]]
    """With ``scenario``: what is wrong with the text."""
    version: NotRequired[str]
    """With ``changed``: of what is in the file now."""


class WireProblem(TypedDict):
    """A mistake in a file, as `twopc check` finds it."""

    line: int
    """From 1, as `column`."""
    column: int
    length: int
    """Of what is marked, in characters; at least 1."""
    message: str
    remedy: str
    """What would mend it, where the message says so; else empty."""
    severity: Literal["error", "warning"]
    path: str
    """The file, if it is another one, which this one takes something from; else empty."""


class ListedFile(TypedDict):
    """A scenario file of the folder."""

    path: str
    """Within the folder, with ``/``."""
    name: str
    about: str
    steps: int
    """Of the longest listed order; 0 of a file that has none."""
    orders: list[str]
    error: WireProblem | None
    """The first, of a file that cannot be played."""
    why_not: str
    """Why it cannot be explored though it is right: it is a load."""


class FileListing(TypedDict):
    """What `twopc explore` was opened with."""

    root: str
    """The folder's name."""
    files: list[ListedFile]
    present: bool
    """Large type, and keys for next and back."""
    read_only: bool
    """Nothing can be saved: the folder is the installed one, or a static export."""


class WireNode(TypedDict):
    """A node of the topology."""

    name: str
    role: Literal["publisher", "subscriber", "republisher"]
    publisher: str
    """Of a Subscriber: where it subscribes; else empty."""


class WireSession(TypedDict):
    """A client: a lane."""

    name: str
    node: str
    also: list[str]
    """Further Subscribers at which its transactions work."""
    way: Literal["coordinator", "any client", "plain"]


class WireStep(TypedDict):
    """A step: a card."""

    name: str
    session: str
    action: str
    """``sql``, ``begin``, ``commit``, ``rollback``, ``sync``, …"""
    text: str
    """What it does, as it is shown: SQL, or the action's word."""


class ListedOrder(TypedDict):
    """An order of the file."""

    name: str
    about: str
    steps: list[WireItem]
    """Of a generated order those of the first that it stands for."""
    generated: bool
    faults: list[str]
    """Armed from its beginning."""


class WireSwitch(TypedDict):
    """Something that may be otherwise than in the file, until the page is left."""

    name: str
    """``isolation``, ``commit``, ``shipping``, ``any_client``, ``agents``, ``protection.version_check``."""
    label: str
    kind: Literal["choice", "on_off"]
    values: list[str]
    """Of a choice; of the others ``on`` and ``off``."""
    value: str
    """As the file has it."""
    about: str


class WirePoint(TypedDict):
    """Where a fault may be placed, and what may happen there."""

    point: str
    """``coordinator.before_commit(pub)``"""
    about: str
    deeds: list[str]
    """What can be put into `WireFault.do` here."""


class WireScenario(TypedDict):
    """A scenario, as far as a page needs it."""

    name: str
    about: str
    replication: Literal["updating", "merge"]
    nodes: list[WireNode]
    sessions: list[WireSession]
    steps: list[WireStep]
    orders: list[ListedOrder]
    switches: list[WireSwitch]
    fault_points: list[WirePoint]
    fault_names: list[str]
    """The file's own, which an order may arm: ``{"fault": "lost"}``."""


class FileContent(TypedDict):
    """A file and what it says."""

    path: str
    text: str
    version: str
    """Changes with the text: what `SaveRequest.base_version` is compared with."""
    errors: list[WireProblem]
    scenario: WireScenario | None
    """None: it has errors, or is a load."""
    why_not: str
    """Why there is no scenario, if there are no errors."""


class CheckRequest(TypedDict):
    """A text to be looked at."""

    path: str
    text: str


class SaveRequest(TypedDict):
    """A text to be written into a file of the folder."""

    path: str
    text: str
    base_version: str
    """The version that it was made from; empty: the file is new."""


class SavedFile(TypedDict):
    """A file that was written."""

    path: str
    version: str


class WireFault(TypedDict):
    """A fault that is placed by hand, armed from the beginning."""

    at: str
    """A `WirePoint.point`."""
    do: str
    nth: NotRequired[int]
    """At which arrival, from 1."""
    session: NotRequired[str]
    """Only at arrivals of this session's transactions."""


class PlayVariant(TypedDict):
    """What is played, besides the text."""

    order: list[WireItem]
    switches: NotRequired[dict[str, str]]
    """By `WireSwitch.name`; those that are as in the file may be left out."""
    faults: NotRequired[list[WireFault]]


class PlayRequest(PlayVariant):
    """An order to be played."""

    path: str
    text: NotRequired[str]
    """Without it: as the file is saved."""
    compare: NotRequired[bool]
    """Tell what has become otherwise than in what was played of this file before."""
    before: NotRequired[PlayVariant | None]
    """Otherwise than in this, if something else may have been played meanwhile."""


class OrdersRequest(TypedDict):
    """All feasible orders to be played."""

    path: str
    text: NotRequired[str]
    sessions: NotRequired[list[str]]
    """Those that take part; all."""
    switches: NotRequired[dict[str, str]]
    faults: NotRequired[list[WireFault]]
    limit: NotRequired[int]
    """At most so many are played."""


class StopRequest(TypedDict):
    """Something to be stopped."""

    what: Literal["play", "orders", "postgres"]


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
    began: float | None
    """Milliseconds since the order began; None: it was not sent."""
    ended: float | None
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

    began: float
    """Milliseconds since the order began."""
    moment: int
    node: str
    kind: Literal["deliver", "suppress", "skip", "echo", "settled", "merge_session", "merge_conflict"]  # fmt: skip
    text: str


#: A message between two places, `from` and `to`: a node, ``distribution``, ``coordinator``, ``log reader``,
#: ``agent of sub1``, or a session. It set out at `sent_ms` and arrives at `arrives_ms`.
WireMessage = TypedDict(
    "WireMessage",
    {
        "from": str,
        "to": str,
        "kind": Literal["message", "reply"],
        "text": str,
        "sent_ms": float,
        "arrives_ms": float,
    },
)


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
    text: str
    """What is broken, or what it means."""
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
    ``row/pub/account/id=1``    {values: {column: text}, version, label, by, state, uncommitted: [{values, version,
                                label, by, state, gone}], locked_by: [{by, mode}], waiting: [session], stale}
    ``lock/pub/alice/…``        {session, what, mode, granted, waits_for: [...]}; of tables, and all that wait
    ``prepared/pub/gid``        {gid, by, since_ms}
    ``marker/pub/gid``          {gid, by, fence, participants}
    ``decision/gid``            {gid, by, decision, participants}
    ``reader``                  {read_to, behind}
    ``stored/1``                {number, by, origin, commands: [text]}
    ``agent/sub1``              {delivered, behind, state}
    ``message/1``               `WireMessage`, while it is on its way
    ``generation/anna/1``       {number, rows}; where changes are merged
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
    """Where PostgreSQL may choose, and has chosen otherwise; else empty."""


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
    text: NotRequired[str]
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


class ScenarioTemplate(TypedDict):
    """A file to begin with."""

    name: str
    about: str
    text: str


class TemplateListing(TypedDict):
    """What a new file may begin with."""

    templates: list[ScenarioTemplate]


class StaticOrder(TypedDict):
    """A listed order of an export."""

    name: str
    play: str
    """The file with its `PlayAnswer`, relative to the index."""


class StaticFile(TypedDict):
    """A scenario file of an export."""

    path: str
    file: str
    """The file with its `FileContent`, relative to the index."""
    orders: list[StaticOrder]


class StaticIndex(TypedDict):
    """``data/index.json`` of a static export: read-only, for a plain file server.

    A page that finds it beside itself asks no server: `listing` is what ``GET /api/files`` would answer.
    """

    listing: FileListing
    files: list[StaticFile]
