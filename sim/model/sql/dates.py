"""Dates and timestamps as text: forms that PostgreSQL reads, forms that it refuses, and forms that the model lacks."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone

from twopc.sim.model.values import SqlError, UnsupportedError

_DATE = r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(:(?P<second>\d{2})(\.(?P<part>\d{1,6}))?)?"
_ZONE = r"\s*(?P<zone>Z|[-+]\d{2}(:?\d{2})?)"
_DAY = re.compile(rf"\s*{_DATE}\s*")
_STAMP = re.compile(rf"\s*{_DATE}([ T]\s*{_TIME}({_ZONE})?)?\s*", re.I)
_SPECIAL = frozenset(
    {"allballs", "epoch", "infinity", "-infinity", "now", "today", "tomorrow", "yesterday"}
)


def day(text: str) -> date:
    """Return the date that a text represents.

    Raises:
        ValueError: the text is not a date.
        SqlError: there is no such day (22008).
        UnsupportedError: a form other than year-month-day.
    """
    match = _DAY.fullmatch(text)
    if match is None:
        raise _unreadable_error(text)
    return _from_match(match, text).date()


def stamp(text: str, *, has_zone: bool) -> datetime:
    """Return the timestamp that a text represents, in UTC; raises like `day`.

    Args:
        has_zone: whether its type has a time zone; the model's sessions are in UTC.
    """
    match = _STAMP.fullmatch(text)
    if match is None:
        raise _unreadable_error(text)
    if match["zone"] is not None and not has_zone:
        raise UnsupportedError(text, "a time zone that is ignored")
    return _from_match(match, text)


def _from_match(match: re.Match[str], text: str) -> datetime:
    of = match.groupdict()
    if of.get("hour") == "24" or of.get("second") == "60":
        raise UnsupportedError(text, "a time that belongs to the next day or minute")
    zone = of.get("zone") or "Z"
    offset = timedelta()
    if zone.upper() != "Z":
        minutes = int(zone[1:3]) * 60 + int(zone[3:].lstrip(":") or 0)
        offset = timedelta(minutes=-minutes if zone[0] == "-" else minutes)
    try:
        return datetime(
            int(of["year"]), int(of["month"]), int(of["day"]),
            int(of.get("hour") or 0), int(of.get("minute") or 0), int(of.get("second") or 0),
            int((of.get("part") or "").ljust(6, "0")), timezone(offset),
        ).astimezone(UTC)  # fmt: skip
    except (ValueError, OverflowError):
        raise SqlError("22008", f'date/time field value out of range: "{text}"') from None


def _unreadable_error(text: str) -> Exception:
    """Return the exception for any other form: a text without digits is not a date unless it is a special word."""
    word = text.strip().lower()
    if not re.search(r"\d", word) and word not in _SPECIAL:
        return ValueError(text)
    return UnsupportedError(text, f"this form of a date or a timestamp ({text})")
