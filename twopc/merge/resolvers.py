"""Resolvers, which decide who wins a conflict of an article, and with which values. Pure.

An article names its resolver in the form ``additive(total)``. Each handles the kinds of conflict for which it is
made (facts 3.5); the default resolver, by priority, handles the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from itertools import takewhile
from typing import Any

from twopc.errors import ArticleError
from twopc.merge.decision import Side, unseen
from twopc.merge.encounters import MergeEncounter, Resolution

PYTHON, SQL = "python:", "sql:"
"""Prefixes of the names of users' own resolvers."""


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of a supplied resolver: the encounter, and the resolver's arguments."""

    encounter: MergeEncounter
    column: str
    delimiter: str

    @property
    def values(self) -> tuple[Any, Any]:
        """Values of the column in the held and in the incoming row, which both exist."""
        held, incoming = self.encounter.held, self.encounter.incoming
        assert held is not None and incoming is not None
        return held[self.column], incoming[self.column]

    @property
    def is_changed(self) -> tuple[bool, bool]:
        """Whether the column was changed in the held row, and in the incoming one, since both were the same.

        If this is unknown, because two different rows include the same changes, values that differ count as two
        changes.
        """
        one, other = self.encounter.held_version, self.encounter.incoming_version
        assert one is not None and self.encounter.held is not None
        if one.lineage == other.lineage:
            held, incoming = self.values
            return (held != incoming,) * 2
        place = [*self.encounter.held].index(self.column)
        return unseen(one, other)[place], unseen(other, one)[place]


#: Precision of PostgreSQL's numeric, so that sums and halves are exact. Infinities give NaN, as in PostgreSQL.
_EXACT = Context(prec=150_000, traps=[])
Combination = Callable[[_Call, Any, Any], Any]
"""Function that makes one value of two that are not NULL."""
Rule = Callable[[_Call], Resolution | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolverKind:
    """A supplied resolver."""

    rule: Rule
    about: str
    takes: str | None = None
    """Type of column that the resolver uses: ``number``, ``datetime`` or ``text``; None if it uses no column."""
    takes_delimiter: bool = False
    needs_column_tracking: bool = False
    handles_deletions: bool = False
    asks_all: bool = False
    is_sent_down: bool = True


def number(value: Any) -> tuple[bool, Any]:
    """Return the sort key of a number: as in PostgreSQL, NaN is greater than all others."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError(f"{value!r} is no number")
    return (True, 0) if value != value else (False, value)


_DATE = re.compile(
    r"(?P<date>\d+-\d\d-\d\d)(?: (?P<time>\d\d:\d\d:\d\d(?:\.\d+)?)(?:\+00)?)?(?P<bc> BC)?"
)


def moment(value: Any) -> tuple[int, ...]:
    """Return the sort key of a date or time, including those that Python cannot represent."""
    if value in ("infinity", "-infinity"):
        return (1,) if value == "infinity" else (-1,)
    if isinstance(value, datetime):
        text = (value.astimezone(UTC) if value.tzinfo else value).strftime("%m-%d %H:%M:%S.%f")
        return (0, value.year if not value.tzinfo else value.astimezone(UTC).year, *_digits(text))
    if isinstance(value, date):
        return (0, value.year, value.month, value.day, 0, 0, 0, 0)
    match = _DATE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is no date")
    year, rest = match["date"].split("-", 1)
    time = match["time"] or "00:00:00"
    return (0, -int(year) if match["bc"] else int(year), *_digits(f"{rest} {time}"))


def _digits(text: str) -> tuple[int, ...]:
    whole, _, fraction = text.partition(".")
    return (*map(int, re.split(r"\D", whole)), int(fraction.ljust(6, "0")[:6] or 0))


def _both(combine: Combination) -> Rule:
    """Return a rule that combines both changes of the column, in the winner's row; a value precedes NULL, and a
    change of one side alone is kept.
    """

    def rule(call: _Call) -> Resolution | None:
        (held, incoming), (is_held_changed, is_incoming_changed) = call.values, call.is_changed
        if not is_held_changed and not is_incoming_changed:
            return None
        if is_held_changed and is_incoming_changed and held is not None and incoming is not None:
            value = combine(call, held, incoming)
        elif is_held_changed and is_incoming_changed:
            value = incoming if held is None else held
        else:
            value = held if is_held_changed else incoming
        return Resolution(row={call.column: value})

    return rule


def _sum(_: _Call, held: Any, incoming: Any) -> Any:
    number(held), number(incoming)
    return _EXACT.add(held, incoming) if isinstance(held, Decimal) else held + incoming


def _mean(call: _Call, held: Any, incoming: Any) -> Any:
    total = _sum(call, held, incoming)
    if isinstance(total, Decimal):
        return _EXACT.divide(total, Decimal(2))
    if isinstance(total, int):
        return int((Decimal(total) / 2).to_integral_value(rounding=ROUND_HALF_UP))
    return total / 2


def _by(key: Callable[[Any], Any], *, is_greater: bool) -> Rule:
    """Return a rule by which the row with the greater, or smaller, value wins; NULL loses, and priorities decide
    between equal values.
    """

    def rule(call: _Call) -> Resolution | None:
        held, incoming = call.values
        if held is None or incoming is None:
            if held is None and incoming is None:
                return None
            return Resolution(winner=Side.INCOMING if held is None else Side.HELD)
        one, other = key(held), key(incoming)
        if one == other:
            return None
        return Resolution(winner=Side.HELD if (one > other) == is_greater else Side.INCOMING)

    return rule


def _joined_texts(call: _Call, held: str, incoming: str) -> str:
    pairs = zip(held, incoming, strict=False)
    common = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    rests = (held[len(common) :], incoming[len(common) :])
    return common + call.delimiter.join(rests)


KINDS: Mapping[str, ResolverKind] = {
    "additive": ResolverKind(
        rule=_both(_sum), about="the sum of both values, in the winner's row", takes="number",
        needs_column_tracking=True,
    ),
    "averaging": ResolverKind(
        rule=_both(_mean), about="the mean of both values, in the winner's row", takes="number",
        needs_column_tracking=True,
    ),
    "minimum": ResolverKind(
        rule=_by(number, is_greater=False), about="the smaller value wins", takes="number"
    ),
    "maximum": ResolverKind(
        rule=_by(number, is_greater=True), about="the larger value wins", takes="number"
    ),
    "datetime_earlier": ResolverKind(
        rule=_by(moment, is_greater=False), about="the earlier value wins", takes="datetime"
    ),
    "datetime_later": ResolverKind(
        rule=_by(moment, is_greater=True), about="the later value wins", takes="datetime"
    ),
    "priority_column": ResolverKind(
        rule=_by(number, is_greater=True), about="the row with the larger priority wins", takes="number"
    ),
    "merge_text": ResolverKind(
        rule=_both(_joined_texts), about="what both texts begin with, and then both rests, in the winner's row",
        takes="text", takes_delimiter=True, needs_column_tracking=True,
    ),
    "subscriber_wins": ResolverKind(
        rule=lambda _: Resolution(winner=Side.INCOMING), about="the Subscriber wins", handles_deletions=True
    ),
    "upload_only": ResolverKind(
        rule=lambda _: Resolution(winner=Side.INCOMING), handles_deletions=True, is_sent_down=False,
        about="what comes up is accepted, and nothing goes down",
    ),
    "download_only": ResolverKind(
        rule=lambda _: Resolution(winner=Side.HELD), handles_deletions=True, asks_all=True,
        about="what comes up is undone where it comes from",
    ),
}  # fmt: skip
"""The supplied resolvers, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppliedResolver:
    """One of `KINDS`, with the column that it uses."""

    name: str
    column: str = ""
    delimiter: str = ""

    @property
    def kind(self) -> ResolverKind:
        """The kind of the resolver."""
        return KINDS[self.name]

    @property
    def asks_all(self) -> bool:
        """Whether the resolver is called for every row of an upload, in conflict or not."""
        return self.kind.asks_all

    @property
    def is_sent_down(self) -> bool:
        """Whether the Publisher's changes are downloaded to Subscribers."""
        return self.kind.is_sent_down

    def decide(self, encounter: MergeEncounter) -> Resolution | None:
        """Return the resolution; None for the default."""
        if not encounter.is_update_conflict and not self.kind.handles_deletions:
            return None
        return self.kind.rule(_Call(encounter, self.column, self.delimiter))


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnResolver:
    """A user's function, called for every conflict."""

    function: Callable[[MergeEncounter], Any]
    asks_all: bool = False
    is_sent_down: bool = True

    def decide(self, encounter: MergeEncounter) -> Resolution | None:
        """Return the function's answer, which the caller validates; None for the default."""
        answer: Resolution | None = self.function(encounter)
        return answer


MergeResolver = SuppliedResolver | OwnResolver
"""The resolver of an article."""


def answered(encounter: MergeEncounter) -> Resolution | None:
    """Return the resolution that a SQL resolver has answered.

    Raises:
        ValueError: the answer is neither ``{"winner": "held" | "incoming", "row": {…}}`` nor NULL.
    """
    answer = encounter.answer
    if isinstance(answer, BaseException):
        raise answer
    if answer is None:
        return None
    if not isinstance(answer, Mapping) or set(answer) - {"winner", "row"}:
        raise ValueError(f'{{"winner": …, "row": …}} or NULL is expected, not {answer!r}')
    winner, row = answer.get("winner"), answer.get("row")
    if row is not None and not isinstance(row, Mapping):
        raise ValueError(f"a row is an object, not {row!r}")
    return Resolution(winner=None if winner is None else Side(winner), row=row)


_CALL = re.compile(r"(?P<name>\w+)\s*(?:\(\s*(?P<arguments>.*)\)\s*)?", re.DOTALL)
_ARGUMENTS = re.compile(
    r"""(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>[^",()\s]+))\s*(?:,\s*'(?P<delimiter>(?:[^']|'')*)'\s*)?"""
)


def parsed(text: str, where: str) -> SuppliedResolver:
    """Return a supplied resolver, given in the form that an article uses.

    Args:
        text: ``name``, ``name(column)`` or ``name(column, 'delimiter')``; a column may be in double quotes.
        where: the article, for messages.

    Raises:
        ArticleError: no resolver has that name (20020), or it needs other arguments (21300, 21301).
    """
    call = _CALL.fullmatch(text.strip())
    kind = KINDS.get(call["name"]) if call is not None else None
    if call is None or kind is None:
        raise ArticleError(
            f"{where}: there is no resolver {text!r} (20020): use {', '.join(KINDS)}, "
            f"{PYTHON}module:function or {SQL}schema.function"
        )
    name = call["name"]
    if kind.takes is None:
        if call["arguments"]:
            raise ArticleError(f"{where}: resolver {name} needs no column (21300)")
        return SuppliedResolver(name=name)
    usage = f"{name}(column, 'delimiter')" if kind.takes_delimiter else f"{name}(column)"
    arguments = _ARGUMENTS.fullmatch(call["arguments"] or "")
    if arguments is None or (arguments["delimiter"] is not None) != kind.takes_delimiter:
        raise ArticleError(f"{where}: resolver {text!r} (21301): use {usage}")
    quoted, delimiter = arguments["quoted"], arguments["delimiter"]
    column = arguments["plain"] if quoted is None else quoted.replace('""', '"')
    return SuppliedResolver(
        name=name, column=column, delimiter=(delimiter or "").replace("''", "'")
    )


#: Types of each kind, as named by `format_type`, without modifiers.
_TYPES = {
    "number": {"smallint", "integer", "bigint", "numeric", "real", "double precision"},
    "datetime": {"date", "timestamp without time zone", "timestamp with time zone"},
    "text": {"text", "character varying", "character"},
}
_NUMBERS = {"number": "21301", "datetime": "21302", "text": "21301"}


def check(resolver: SuppliedResolver, types: Mapping[str, str], where: str, *, column_tracking: bool) -> None:  # fmt: skip
    """Check that a resolver can work for an article.

    Args:
        types: of each column that is sent, as `format_type` returns it.

    Raises:
        ArticleError: the resolver's column is missing (21501) or of another kind (21301, 21302), or it needs column
            tracking (21303).
    """
    kind = resolver.kind
    if kind.needs_column_tracking and not column_tracking:
        raise ArticleError(
            f"{where}: resolver {resolver.name} needs column tracking (21303): publish with tracking='column'"
        )
    if kind.takes is None:
        return
    if resolver.column not in types:
        raise ArticleError(
            f"{where} has no column {resolver.column!r} for resolver {resolver.name} (21501)"
        )
    held = re.sub(r"\([^)]*\)", "", types[resolver.column])
    if held not in _TYPES[kind.takes]:
        raise ArticleError(
            f"{where}: column {resolver.column!r} is {held}, and resolver {resolver.name} needs a "
            f"{kind.takes} ({_NUMBERS[kind.takes]}): {', '.join(sorted(_TYPES[kind.takes]))}"
        )
