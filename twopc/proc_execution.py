"""Execution of a routine as one command: articles of routines, calls, and when a call may stand for its rows.

Words that the Publisher's end (whose log reader puts one call in the place of its rows), a Subscriber (which
runs it again) and the model share. Pure; knows no server and no routine's text.

Source: seed 004.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

#: Where the Publisher keeps what it makes of routines.
PROC_SCHEMA = "msrepl_call"
#: Rows of article t that belong to a call which is sent as well are stored as article t + BESIDE.
BESIDE = 10_000_000
#: `msrepl_commands.type` of a call, and of a routine's definition.
CALL_TYPE, DEFINITION_TYPE = 30, 31

_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*\Z")
_UNQUOTED = re.compile(r"(smallint|integer|bigint|numeric|real|double precision|oid)\b[^\[]*\Z")


class ProcType(StrEnum):
    """What of a routine is published."""

    SERIALIZABLE = "serializable proc exec"
    """Calls made by serializable transactions, where they mean the same at the Subscriber."""
    PLAIN = "proc exec"
    """Every call, whatever it comes to at the Subscriber."""
    SCHEMA_ONLY = "proc schema only"
    """Its definition, and no call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of a routine."""

    name: str
    """Empty: it has none."""
    mode: str
    """i, o, b (inout), v (variadic), t (a column of the result), as in ``pg_proc.proargmodes``."""
    type: str
    """As SQL writes it, with its schema unless that is pg_catalog; ``any...`` where it is polymorphic."""

    @property
    def given(self) -> bool:
        """The caller gives a value, which travels."""
        return self.mode in ("i", "b", "v")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcWarning:
    """Something in a routine that may come to something else at a Subscriber."""

    kind: str
    """One word."""
    object: str
    """What in the routine or the database it is about."""
    text: str
    """A sentence that names the object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcArticle:
    """A routine that is published."""

    article_id: int
    """Tables and routines are numbered together."""
    schema: str
    name: str
    kind: str
    """p procedure, f function."""
    arguments: tuple[Argument, ...]
    returns_set: bool = False
    type: ProcType = ProcType.SERIALIZABLE
    reads: tuple[str, ...] | None = None
    """Articles (``table`` or ``schema.table``) that it reads; None: not declared, so any."""
    writes: tuple[str, ...] | None = None
    """Those that it writes; None: not declared, so any."""
    xact_abort: bool = True
    """An error goes on to the caller. False: it ends the call only, and is sent with it."""
    commits: bool = False
    """It ends transactions: its calls are never sent."""
    replicate_ddl: bool = True
    """A new definition travels to Subscribers."""
    definition: str = ""
    """The user's ``CREATE OR REPLACE ...``, without a semicolon at its end."""
    obstacle: str | None = None
    """Why none of its calls can be sent now; None: nothing stands against it."""
    warnings: tuple[ProcWarning, ...] = ()

    @property
    def given(self) -> tuple[Argument, ...]:
        """The arguments whose values travel."""
        return tuple(each for each in self.arguments if each.given)

    @property
    def identity(self) -> str:
        """``schema."odd name"(type, type)``: tells it from its overloads."""
        types = ", ".join(each.type for each in self.given)
        return f"{_quoted(self.schema)}.{_quoted(self.name)}({types})"

    @property
    def tables(self) -> frozenset[str] | None:
        """The articles that it reads or writes; None: any."""
        if self.reads is None or self.writes is None:
            return None
        return frozenset((*self.reads, *self.writes))

    def as_json(self) -> dict[str, object]:
        """What is stored of it; `from_json` reads it."""
        return {
            "article_id": self.article_id,
            "schema": self.schema,
            "name": self.name,
            "kind": self.kind,
            "arguments": [
                {"name": each.name, "mode": each.mode, "type": each.type} for each in self.arguments
            ],
            "returns_set": self.returns_set,
            "type": str(self.type),
            "reads": None if self.reads is None else list(self.reads),
            "writes": None if self.writes is None else list(self.writes),
            "xact_abort": self.xact_abort,
            "commits": self.commits,
            "replicate_ddl": self.replicate_ddl,
            "definition": self.definition,
            "obstacle": self.obstacle,
            "warnings": [
                {"kind": each.kind, "object": each.object, "text": each.text}
                for each in self.warnings
            ],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> ProcArticle:
        """The inverse of `as_json`; definition, obstacle and warnings may be left out."""
        reads, writes = stored["reads"], stored["writes"]
        return cls(
            article_id=stored["article_id"],
            schema=stored["schema"],
            name=stored["name"],
            kind=stored["kind"],
            arguments=tuple(Argument(**each) for each in stored["arguments"]),
            returns_set=stored["returns_set"],
            type=ProcType(stored["type"]),
            reads=None if reads is None else tuple(reads),
            writes=None if writes is None else tuple(writes),
            xact_abort=stored["xact_abort"],
            commits=stored["commits"],
            replicate_ddl=stored["replicate_ddl"],
            definition=stored.get("definition", ""),
            obstacle=stored.get("obstacle"),
            warnings=tuple(ProcWarning(**each) for each in stored.get("warnings", ())),
        )


def _quoted(name: str) -> str:
    """An identifier in SQL's notation."""
    return name if _PLAIN_NAME.match(name) else '"' + name.replace('"', '""') + '"'


# -- the gate -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFacts:
    """What a call is judged by when it begins."""

    type: ProcType
    isolation: str
    """``transaction_isolation`` of the caller."""
    read_only: bool
    """Nothing can be written: a read-only transaction, or a server in recovery."""
    called: bool
    """Somebody takes the call."""
    origin: bool
    """``session_replication_role`` is ``origin``."""
    obstacle: bool
    temporary: bool
    """The session has a temporary relation, which the body may mean."""
    branch: bool
    """The transaction is marked as a Subscriber's."""


def gate_verdict(facts: GateFacts) -> str | None:
    """Why a call travels as rows, in one word; None: it may be sent, as far as can be known when it begins."""
    if facts.read_only:
        return "read_only"
    if not facts.called or facts.type is ProcType.SCHEMA_ONLY:
        return "nobody"
    if not _isolated(facts):
        return "isolation"
    if not facts.origin:
        return "replica"
    if facts.obstacle:
        return "obstacle"
    if facts.temporary:
        return "temporary"
    return "branch" if facts.branch else None


def _isolated(facts: GateFacts) -> bool:
    if facts.type is ProcType.SERIALIZABLE:
        return facts.isolation == "serializable"
    return facts.isolation != "read uncommitted"


# -- calls ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcCall:
    """One call, as it is stored and carried."""

    values: tuple[str | None, ...]
    """Texts of the given arguments' values, in order; None is NULL."""
    types: tuple[str, ...] = ()
    """Their types at the call; only if one is polymorphic."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the caller under which the body ran: always ``search_path``."""
    failure: str | None = None
    """The SQLSTATE with which it failed at the Publisher."""

    def as_text(self) -> str:
        """Compact JSON; `parse` reads it."""
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
        """The inverse of `as_text`."""
        stored = json.loads(text)
        return cls(
            values=tuple(stored.get("v", ())),
            types=tuple(stored.get("t", ())),
            settings=stored.get("s", {}),
            failure=stored.get("f"),
        )


def call_text(article: ProcArticle, call: ProcCall) -> str:
    """A call as people read it: ``{call "public"."give_raise" (10)}``."""
    types = call.types or tuple(each.type for each in article.given)
    shown = ", ".join(
        _shown(value, type_) for value, type_ in zip(call.values, types, strict=False)
    )
    place = ".".join('"' + each.replace('"', '""') + '"' for each in (article.schema, article.name))
    return f"{{call {place} ({shown})}}"


def _shown(value: str | None, type_: str) -> str:
    if value is None:
        return "NULL"
    return value if _UNQUOTED.match(type_) else "'" + value.replace("'", "''") + "'"


# -- the snapshot rule ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PgSnapshot:
    """A pg_snapshot: which transactions had been committed."""

    xmin: int
    xmax: int
    running: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str) -> PgSnapshot:
        """From its text, ``xmin:xmax:xid,xid``."""
        xmin, xmax, running = text.split(":")
        return cls(
            xmin=int(xmin),
            xmax=int(xmax),
            running=frozenset(int(each) for each in running.split(",") if each),
        )

    def sees(self, xid: int) -> bool:
        """Whether a committed transaction is visible in it."""
        return xid < self.xmin or (xid < self.xmax and xid not in self.running)


class Writers:
    """Who wrote what lately, in the order of commits: for the snapshot rule.

    A call means the same at the Subscriber if the caller's snapshot saw every transaction that was committed
    before it and wrote a table which the routine reads or writes. What the snapshot saw was committed before,
    so it stands earlier in the log; the rule says that all that stands earlier was seen.

    Args:
        horizon: the highest transaction id of a writer about which nothing else is known.
        kept: so many writers are remembered; whoever is forgotten raises the horizon.
    """

    def __init__(self, horizon: int, *, kept: int = 4096) -> None:
        self.horizon = horizon
        """The highest transaction id about which nothing else is known any more."""
        self.highest = horizon
        """The highest transaction id that was ever noted."""
        self._kept = kept
        self._noted: deque[tuple[int, frozenset[str] | None]] = deque()

    def note(self, xid: int, tables: frozenset[str] | None) -> None:
        """A writer was committed; None: it may have written any table."""
        self._noted.append((xid, tables))
        self.highest = max(self.highest, xid)
        if len(self._noted) > self._kept:
            forgotten, _ = self._noted.popleft()
            self.horizon = max(self.horizon, forgotten)

    def sees_all(self, snapshot: PgSnapshot, tables: frozenset[str] | None) -> bool:
        """Whether a snapshot saw every writer of these tables; None: of any."""
        if self.horizon >= snapshot.xmin:
            return False
        return not any(
            not snapshot.sees(xid)
            and (tables is None or written is None or not tables.isdisjoint(written))
            for xid, written in self._noted
        )


# -- numbers --------------------------------------------------------------------------------------


def beside(article_id: int) -> int:
    """The number under which rows beside a call of this article are stored."""
    return article_id + BESIDE


def base_of(article_id: int) -> int:
    """The inverse of `beside`; other numbers as they are."""
    return article_id - BESIDE if article_id >= BESIDE else article_id
