"""What is kept of more rows than a history holds: each column's sum, and a digest by which two tables are compared."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

Rows = Sequence[Mapping[str, Any]]


def sums_of(rows: Rows) -> dict[str, str]:
    """What each column of numbers adds up to; a row without a value adds nothing."""
    results = {}
    for column in rows[0] if rows else ():
        try:
            values = (Decimal(str(row[column])) for row in rows if row[column] is not None)
            results[column] = f"{sum(values, start=Decimal(0)):f}"
        except InvalidOperation:
            continue  # it holds what is no number
    return results


def digests_of(rows: Rows, key: Sequence[str]) -> dict[str, str]:
    """Of each column with the key beside it: equal where every row has the same in it."""
    digests = {column: hashlib.sha256() for column in (rows[0] if rows else ())}
    for row in rows:
        name = repr([row[each] for each in key])
        for column, digest in digests.items():
            digest.update(f"{name} {row[column]!r}\n".encode())
    return {column: digest.hexdigest()[:16] for column, digest in digests.items()}
