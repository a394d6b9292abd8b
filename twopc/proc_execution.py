"""Execution of a routine as one command: articles of routines, calls, and when a call may replace its rows.

Shared by the Publisher, whose log reader replaces rows by a call, by a Subscriber, which executes the call, and by
the model. Pure; independent of servers and of routines' texts.

Source: seed 004.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

#: Schema at the Publisher for objects generated from routines.
PROC_SCHEMA = "msrepl_call"
#: Rows of article t that belong to a call which is sent as well are stored under article t + BESIDE.
BESIDE = 10_000_000
#: `msrepl_commands.type` of a call, and of a routine's definition.
CALL_TYPE, DEFINITION_TYPE = 30, 31

_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*\Z")
_UNQUOTED = re.compile(r"(smallint|integer|bigint|numeric|real|double precision|oid)\b[^\[]*\Z")


class ProcType(StrEnum):
    """Part of a routine that is published."""

    SERIALIZABLE = "serializable proc exec"
    """Calls by serializable transactions, where a call has the same effect at the Subscriber."""
    PLAIN = "proc exec"
    """Every call, whatever its effect at the Subscriber."""
    SCHEMA_ONLY = "proc schema only"
    """The routine's definition, and no calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of a routine."""

    name: str
    """Name of the argument; empty if it has none."""
    mode: str
    """i, o, b (inout), v (variadic) or t (a column of the result), as in ``pg_proc.proargmodes``."""
    type: str
    """Type in SQL notation, with its schema unless that is pg_catalog; ``any...`` for a polymorphic type."""

    @property
    def given(self) -> bool:
        """Whether the caller passes a value, which is sent with the call."""
        return self.mode in ("i", "b", "v")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcWarning:
    """Part of a routine that may have a different effect at a Subscriber."""

    kind: str
    """Kind of the warning, in one word."""
    object: str
    """The object in the routine or the database that the warning concerns."""
    text: str
    """Sentence that names the object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcArticle:
    """A published routine."""

    article_id: int
    """Number of the article; tables and routines share one numbering."""
    schema: str
    name: str
    kind: str
    """p for a procedure, f for a function."""
    arguments: tuple[Argument, ...]
    returns_set: bool = False
    type: ProcType = ProcType.SERIALIZABLE
    reads: tuple[str, ...] | None = None
    """Articles (``table`` or ``schema.table``) that the routine reads; None if not declared, so any."""
    writes: tuple[str, ...] | None = None
    """Articles that the routine writes; None if not declared, so any."""
    xact_abort: bool = True
    """Whether an error propagates to the caller. If not, an error ends the call only, and is sent with the call."""
    commits: bool = False
    """Whether the routine ends transactions; its calls are then never sent."""
    replicate_ddl: bool = True
    """Whether a new definition is sent to Subscribers."""
    definition: str = ""
    """The user's ``CREATE OR REPLACE ...`` statement, without a semicolon at its end."""
    obstacle: str | None = None
    """Reason why calls cannot be sent now; None if they can."""
    warnings: tuple[ProcWarning, ...] = ()

    @property
    def given(self) -> tuple[Argument, ...]:
        """The arguments whose values are sent."""
        return tuple(each for each in self.arguments if each.given)

    @property
    def identity(self) -> str:
        """``schema."odd name"(type, type)``, which distinguishes the routine from its overloads."""
        types = ", ".join(each.type for each in self.given)
        return f"{_quoted(self.schema)}.{_quoted(self.name)}({types})"

    @property
    def tables(self) -> frozenset[str] | None:
        """The articles that the routine reads or writes; None for any."""
        if self.reads is None or self.writes is None:
            return None
        return frozenset((*self.reads, *self.writes))

    def as_json(self) -> dict[str, Any]:
        """Return the article as stored; `from_json` is the inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> ProcArticle:
        """Return the article from its stored form; definition, obstacle and warnings may be missing."""
        values = {each.name: stored[each.name] for each in fields(cls) if each.name in stored}
        for name in ("reads", "writes"):
            values[name] = None if stored[name] is None else tuple(stored[name])
        values["type"] = ProcType(stored["type"])
        values["arguments"] = tuple(Argument(**each) for each in stored["arguments"])
        values["warnings"] = tuple(ProcWarning(**each) for each in stored.get("warnings", ()))
        return cls(**values)


def _quoted(name: str) -> str:
    """Return an identifier in SQL notation."""
    return name if _PLAIN_NAME.match(name) else '"' + name.replace('"', '""') + '"'


# -- the gate -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFacts:
    """Facts by which the gate judges a call when it begins."""

    type: ProcType
    isolation: str
    """``transaction_isolation`` of the caller."""
    read_only: bool
    """Whether writes are impossible: in a read-only transaction, or on a server in recovery."""
    called: bool
    """Whether some subscription receives the call."""
    origin: bool
    """Whether ``session_replication_role`` is ``origin``."""
    obstacle: bool
    temporary: bool
    """Whether the session has a temporary relation, to which names in the body may refer."""
    branch: bool
    """Whether the transaction is marked as a Subscriber's."""


def gate_verdict(facts: GateFacts) -> str | None:
    """Return the reason, in one word, why a call is sent as rows; None if it may be sent as a call, as far as known
    when it begins.
    """
    if facts.type is ProcType.SERIALIZABLE:
        is_isolated = facts.isolation == "serializable"
    else:
        is_isolated = facts.isolation != "read uncommitted"
    reasons = {
        "read_only": facts.read_only,
        "nobody": not facts.called or facts.type is ProcType.SCHEMA_ONLY,
        "isolation": not is_isolated,
        "replica": not facts.origin,
        "obstacle": facts.obstacle,
        "temporary": facts.temporary,
        "branch": facts.branch,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


# -- calls ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcCall:
    """One call of a routine, as it is stored and sent."""

    values: tuple[str | None, ...]
    """Values of the given arguments as texts, in order; None is NULL."""
    types: tuple[str, ...] = ()
    """Types of the given arguments at the call; only if one is polymorphic."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the caller with which the body ran: always ``search_path``."""
    failure: str | None = None
    """SQLSTATE of the error with which the call failed at the Publisher."""

    def as_text(self) -> str:
        """Return the call as compact JSON; `parse` is the inverse."""
        stored = {
            "v": list(self.values),
            "t": list(self.types),
            "s": dict(self.settings),
            "f": self.failure,
        }
        present = {key: value for key, value in stored.items() if value}
        return json.dumps(present, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> ProcCall:
        """Return the call from the text made by `as_text`."""
        stored = json.loads(text)
        return cls(
            values=tuple(stored.get("v", ())),
            types=tuple(stored.get("t", ())),
            settings=stored.get("s", {}),
            failure=stored.get("f"),
        )


def call_text(article: ProcArticle, call: ProcCall) -> str:
    """Return a call in readable form: ``{call "public"."give_raise" (10)}``."""
    types = call.types or tuple(each.type for each in article.given)
    shown = ", ".join(
        shown_value(value, type_) for value, type_ in zip(call.values, types, strict=False)
    )
    place = ".".join('"' + each.replace('"', '""') + '"' for each in (article.schema, article.name))
    return f"{{call {place} ({shown})}}"


def shown_value(value: str | None, type_: str) -> str:
    """Return a value as readable commands show it: in quotes, unless it is a number or NULL."""
    if value is None:
        return "NULL"
    return value if _UNQUOTED.match(type_) else "'" + value.replace("'", "''") + "'"


# -- the snapshot rule ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PgSnapshot:
    """A pg_snapshot: which transactions are visible."""

    xmin: int
    xmax: int
    running: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str) -> PgSnapshot:
        """Return the snapshot from its text, ``xmin:xmax:xid,xid``."""
        xmin, xmax, running = text.split(":")
        return cls(
            xmin=int(xmin),
            xmax=int(xmax),
            running=frozenset(int(each) for each in running.split(",") if each),
        )

    def sees(self, xid: int) -> bool:
        """Return whether a committed transaction is visible in the snapshot."""
        return xid < self.xmin or (xid < self.xmax and xid not in self.running)


class Writers:
    """Recent writers and the tables that they wrote, in the order of commits: for the snapshot rule.

    A call has the same effect at the Subscriber if the caller's snapshot saw every transaction that committed
    before the call and wrote a table that the routine reads or writes. Transactions that the snapshot saw committed
    earlier, so they precede the call in the log; the rule requires the converse, that the snapshot saw all that
    precede.

    Args:
        horizon: the highest transaction id of a writer about which nothing else is known.
        kept: number of writers that are remembered; a writer that is dropped raises the horizon.
    """

    def __init__(self, horizon: int, *, kept: int = 4096) -> None:
        self.horizon = horizon
        """The highest transaction id among the writers that are no longer remembered."""
        self.highest = horizon
        """The highest transaction id ever noted."""
        self._kept = kept
        self._recent: deque[tuple[int, frozenset[str] | None]] = deque()

    def note(self, xid: int, tables: frozenset[str] | None) -> None:
        """Record the commit of a writer; `tables` is None if it may have written any table."""
        self._recent.append((xid, tables))
        self.highest = max(self.highest, xid)
        if len(self._recent) > self._kept:
            forgotten, _ = self._recent.popleft()
            self.horizon = max(self.horizon, forgotten)

    def sees_all(self, snapshot: PgSnapshot, tables: frozenset[str] | None) -> bool:
        """Return whether a snapshot saw every writer of these tables; None stands for any table."""
        if self.horizon >= snapshot.xmin:
            return False
        return not any(
            not snapshot.sees(xid)
            and (tables is None or written is None or not tables.isdisjoint(written))
            for xid, written in self._recent
        )


# -- numbers --------------------------------------------------------------------------------------


def beside(article_id: int) -> int:
    """Return the article number under which rows that accompany a call of this article are stored."""
    return article_id + BESIDE


def base_of(article_id: int) -> int:
    """Return the article number for a number made by `beside`; other numbers unchanged."""
    return article_id - BESIDE if article_id >= BESIDE else article_id
