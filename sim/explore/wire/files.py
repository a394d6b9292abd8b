"""Files, and what they say, as a page and its server tell each other of them: see `twopc.sim.explore.wire`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict  # by which pydantic reads requests

#: One entry of an order: the name of a step, or what an order's item may be besides, as in a file:
#: ``{"sync": ["sub2"]}``, ``{"cut": "sub1"}``, ``{"fault": "lost"}``.
WireItem = str | dict[str, Any]
#: A number that a request has: of arrivals, of orders that are played, of lessons.
RequestNumber = Annotated[int, Field(ge=1, le=1_000_000)]


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


class ListedFile(TypedDict):
    """A scenario file of the folder."""

    path: str
    """Within the folder, with ``/``."""
    name: str
    about: str
    steps: int
    """Of the longest listed order; 0 of a file that has none, or that was not checked."""
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
    """An order of the file, in a cell of its matrix; what is not said of it, others may share, its steps included."""

    name: str
    """By which it is asked for, with the cell: ``alice first [serializable]``."""
    about: str
    steps: list[WireItem]
    """Of a generated order those of the first that it stands for."""
    generated: bool
    faults: list[str]
    """Armed from its beginning: of `WireScenario.faults`."""
    switches: dict[str, str]
    """What it has otherwise than `WireSwitch.value`: its own isolation, or its cell's."""


class WireSwitch(TypedDict):
    """Something that may be otherwise than in the file, until the page is left."""

    name: str
    """``isolation``, ``commit``, ``shipping``, ``any_client``, ``agents``, ``protection.version_check``."""
    label: str
    kind: Literal["choice", "on_off"]
    values: list[str]
    """Of a choice; of the others ``on`` and ``off``."""
    value: str
    """As the file has it, for orders that do not say otherwise."""
    about: str
    """What it changes; of a protection also what goes wrong without it."""
    of_twin: bool
    """A protection that a twin of the file switches off: what the file is about."""


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
    faults: dict[str, str]
    """The file's own, which an order may arm as ``{"fault": "lost"}``, with what each does."""


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


class LessonQuery(TypedDict):
    """Of which question the answer is asked for; both numbers count from 1."""

    lesson: RequestNumber
    question: RequestNumber


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
    lessons: str
    """The file with what ``GET /api/lessons`` would answer, relative to the index."""
    answers: dict[str, str]
    """By ``lesson.question``, as ``1.2``, the file with the answer."""
