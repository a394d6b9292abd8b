"""Types for files and their contents in the protocol between page and server: see `twopc.sim.explore.wire`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict  # as pydantic requires

#: One entry of an order: the name of a step, or another kind of item as in a file:
#: ``{"sync": ["sub2"]}``, ``{"cut": "sub1"}``, ``{"fault": "lost"}``.
WireItem = str | dict[str, Any]
#: A number in a request: of an arrival, of orders to play, or of a lesson.
RequestNumber = Annotated[int, Field(ge=1, le=1_000_000)]


class WireProblem(TypedDict):
    """An error or warning in a file, as `twopc check` reports it."""

    line: int
    """Number from 1, like `column`."""
    column: int
    length: int
    """Length of the marked text in characters; at least 1."""
    message: str
    remedy: str
    """The remedy, if the message contains one; else empty."""
    severity: Literal["error", "warning"]
    path: str
    """Path of the included file that has the problem; empty: the file itself."""


class Refusal(TypedDict):
    """The reason why a request was not done; nothing is changed."""

    error: str
    """The reason in words, with a remedy."""
    kind: Literal[
        "token", "origin", "request", "path", "missing", "changed", "scenario", "switch", "stopped",
        "died", "server",
    ]  # fmt: skip
    """``stopped``: the job was stopped; ``died``: the worker died, and another one has replaced it."""
    errors: NotRequired[list[WireProblem]]
    """Errors of the text, for ``scenario``."""
    version: NotRequired[str]
    """Version of the present file, for ``changed``."""


class ListedFile(TypedDict):
    """A scenario file of the folder."""

    path: str
    """Path within the folder, with ``/``."""
    name: str
    about: str
    steps: int
    """Number of steps of the longest listed order; 0 if there is none, or the file was not checked."""
    orders: list[str]
    error: WireProblem | None
    """The first error of a file that cannot be played."""
    why_not: str
    """Why a valid file cannot be explored: it is a load."""


class FileListing(TypedDict):
    """The folder that `twopc explore` has opened."""

    root: str
    """Name of the folder."""
    files: list[ListedFile]
    present: bool
    """Whether the page is for a presentation: large type, and keys for next and back."""
    read_only: bool
    """Whether nothing can be saved: the folder is the installed one, or a static export."""


class WireNode(TypedDict):
    """A node of the topology."""

    name: str
    role: Literal["publisher", "subscriber", "republisher"]
    publisher: str
    """Publisher of a Subscriber; else empty."""


class WireSession(TypedDict):
    """A client, shown as a lane."""

    name: str
    node: str
    also: list[str]
    """Further Subscribers at which the session's transactions work."""
    way: Literal["coordinator", "any client", "plain"]


class WireStep(TypedDict):
    """A step, shown as a card."""

    name: str
    session: str
    action: str
    """``sql``, ``begin``, ``commit``, ``rollback``, ``sync``, …"""
    text: str
    """Text of the card: SQL, or the name of the action."""


class ListedOrder(TypedDict):
    """An order of the file, in a cell of its matrix; only its name is unique, as orders may share their steps."""

    name: str
    """Name for requests, with the cell: ``alice first [serializable]``."""
    about: str
    steps: list[WireItem]
    """Steps; for a generated order those of its first course."""
    generated: bool
    faults: list[str]
    """Faults armed from the beginning, of `WireScenario.faults`."""
    switches: dict[str, str]
    """Values that differ from `WireSwitch.value`: the order's own isolation, or values of its cell."""


class WireSwitch(TypedDict):
    """A property that can be changed while the page is open, without changing the file."""

    name: str
    """``isolation``, ``commit``, ``shipping``, ``any_client``, ``agents``, ``protection.version_check``."""
    label: str
    kind: Literal["choice", "on_off"]
    values: list[str]
    """Values of a choice; otherwise ``on`` and ``off``."""
    value: str
    """Value of the file, for orders without one of their own."""
    about: str
    """What the switch changes; for a protection also what goes wrong without it."""
    of_twin: bool
    """Whether a twin of the file switches this protection off, so that the file is about it."""


class WirePoint(TypedDict):
    """A point at which a fault can be placed, and the actions that are possible there."""

    point: str
    """``coordinator.before_commit(pub)``"""
    about: str
    deeds: list[str]
    """Values for `WireFault.do` at this point."""


class WireScenario(TypedDict):
    """The parts of a scenario that a page needs."""

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
    """The file's faults, which an order can arm as ``{"fault": "lost"}``, and what each does."""


class FileContent(TypedDict):
    """A file with its scenario and its errors."""

    path: str
    text: str
    version: str
    """Digest of the text, with which `SaveRequest.base_version` is compared."""
    errors: list[WireProblem]
    scenario: WireScenario | None
    """None: the file has errors, or is a load."""
    why_not: str
    """Why there is no scenario, if there are no errors."""


class CheckRequest(TypedDict):
    """A text to be checked."""

    path: str
    text: str


class SaveRequest(TypedDict):
    """A text to be written to a file of the folder."""

    path: str
    text: str
    base_version: str
    """Version of the text that was edited; empty: the file is new."""


class SavedFile(TypedDict):
    """A file that was written."""

    path: str
    version: str


class LessonQuery(TypedDict):
    """The question whose answer is requested; both numbers count from 1."""

    lesson: RequestNumber
    question: RequestNumber


class ScenarioTemplate(TypedDict):
    """A template for a new file."""

    name: str
    about: str
    text: str


class TemplateListing(TypedDict):
    """The templates for new files."""

    templates: list[ScenarioTemplate]


class StaticOrder(TypedDict):
    """A listed order of an export."""

    name: str
    play: str
    """File with the order's `PlayAnswer`, relative to the index."""


class StaticFile(TypedDict):
    """A scenario file of an export."""

    path: str
    file: str
    """File with the `FileContent`, relative to the index."""
    orders: list[StaticOrder]


class StaticIndex(TypedDict):
    """Content of ``data/index.json`` in a static export, which is read-only and needs only a plain file server.

    A page that finds this file beside itself sends no requests: `listing` is the answer to ``GET /api/files``.
    """

    listing: FileListing
    files: list[StaticFile]
    lessons: str
    """File with the answer to ``GET /api/lessons``, relative to the index."""
    answers: dict[str, str]
    """Files with answers by ``lesson.question``, such as ``1.2``."""
