"""Refusals: SQLSTATE, the original's error number, and facts as JSON in DETAIL.

Implements the effects of twopc/sql/raise_conflict.sql and of raise_stale.sql and similar files: the form of every
refusal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from twopc.sim.model.sql import types
from twopc.sim.model.values import SqlError

#: Hints: the message that the original raises after 20515, and the condition for a retry.
_HINT = "20512: the transaction is rolled back at both sites."
_AGAIN = " Trying again helps only after the Subscriber has synchronised."


def json_text(value: Any, kind: str = "") -> str:
    """Return a value as ``to_jsonb`` shows it.

    Args:
        kind: the column's type; values of JSON types stay as they are.
    """
    if value is None:
        return "null"
    if kind in ("json", "jsonb"):
        return str(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bool | int | float | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, datetime):
        return json.dumps(value.isoformat())
    if isinstance(value, date):
        return json.dumps(value.isoformat())
    if isinstance(value, Mapping):
        pairs = ", ".join(
            f"{json.dumps(name, ensure_ascii=False)}: {json_text(one)}"
            for name, one in value.items()
        )
        return f"{{{pairs}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(json_text(one) for one in value)}]"
    if isinstance(value, Raw):
        return value.text
    return json.dumps(types.output(value), ensure_ascii=False)


class Raw:
    """A fragment that already is JSON text."""

    def __init__(self, text: str) -> None:
        self.text = text


def _order(name: str) -> tuple[int, bytes]:
    raw = name.encode()
    return len(raw), raw


def row_json(columns: Sequence[tuple[str, str]], values: Sequence[Any]) -> Raw:
    """Return a row as jsonb shows it, short names first; `columns` has the name and type of each column."""
    pairs = ", ".join(
        f"{json.dumps(name, ensure_ascii=False)}: {json_text(value, kind)}"
        for (name, kind), value in sorted(
            zip(columns, values, strict=True), key=lambda pair: _order(pair[0][0])
        )
    )
    return Raw(f"{{{pairs}}}")


def conflict(
    kind: str, state: str, number: int, article: str | None, key: Raw | None, message: str, *,
    sent: Any = None, held: Any = None, image: Raw | None = None,
    constraints: Sequence[str] | None = None,
) -> SqlError:  # fmt: skip
    """``msrepl.raise_conflict``

    Args:
        sent, held: versions of the sent row and of the Publisher's row.
        image: the Publisher's row.
    """
    detail = json_text(
        {
            "kind": kind,
            "number": number,
            "article": article,
            "key": key,
            "subscriber_version": None if sent is None else str(sent),
            "publisher_version": None if held is None else str(held),
            "publisher_row": image,
            "constraints": None if constraints is None else list(constraints),
        }
    )
    hint = _HINT + (_AGAIN if state in ("40001", "23505") else "")
    return SqlError(state, message, detail=detail, hint=hint)


def refused(state: str, message: str, hint: str = "", **text: Any) -> SqlError:
    """Return an error of the product with other facts; without facts if `text` is empty."""
    return SqlError(state, message, detail=json_text(text) if text else "", hint=hint)


def triggered(article: str, key: Raw, cause: str) -> SqlError:
    """``msrepl.raise_triggered``"""
    return refused(
        "09000",
        f"{cause} of the Publisher changed another row of published table {article}: the Subscriber would "
        "not see it",
        "Make the change at the Publisher, or let the trigger leave published tables alone.",
        kind="triggered_change", number=20515, article=article, key=key, cause=cause,
    )  # fmt: skip
