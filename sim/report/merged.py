"""Merge sessions in sentences, and the conflicts that they have recorded.

Pure functions of records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twopc.sim.report.merge_reports import figures
from twopc.sim.report.phrases import row_text


def conflict_text(conflict: Mapping[str, Any]) -> str:
    """``customer {id: 1}: update_update, anna has won, {phone: 3} is kept``."""
    where = f"{conflict['table']} {row_text(conflict['key'])}: {conflict['type']}"
    loser = conflict.get("loser")
    if conflict.get("winner"):
        origin = conflict["origin"]
        if loser:
            kept = f"{row_text(loser)} of {origin} is kept"
        elif conflict["type"] == "update_wins":
            kept = f"{origin} had deleted it"
        else:
            kept = f"nothing of {origin} is kept"
        return f"{where}, {conflict['winner']} has won, {kept}"
    return f"{where} at {conflict['node']}, of {conflict['origin']} ({conflict.get('reason_code')})"


def sentence(report: Mapping[str, Any], who: str) -> str:
    """What one session did, as one would tell it; `who`: whose sync it was."""
    up, down = report["uploaded"], report["downloaded"]
    text = f"{who} merge session of {report['subscriber']} brings {_rows(up)} up and {_rows(down)} down"
    remarks = figures(report).split(", ")[1:]
    return f"{text} ({', '.join(remarks)})" if remarks else text


def _rows(count: int) -> str:
    return f"{count or 'no'} row{'' if count == 1 else 's'}"
