"""The generated parts of ``docs/protocol.md``; ``python -m tests.protocol.diagrams`` updates them."""

from __future__ import annotations

import re
from pathlib import Path

from twopc.protocol.states import COORDINATOR, PARTICIPANT, State, Table, mermaid

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
_PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(\n<!-- end -->)", re.DOTALL)


def rows(table: Table) -> str:
    """Return the table in Markdown; late events that change nothing share a line."""
    lines = ["| state | event | action | next |", "|---|---|---|---|"]
    late: dict[str, list[str]] = {}
    order = list[State](type(next(iter(table))[0]))
    for (state, event), row in sorted(table.items(), key=lambda item: order.index(item[0][0])):
        if row.action in ("ignore", "late_vote", "undecided"):
            late.setdefault(str(state), []).append(event.__name__)
        else:
            after = ", ".join(row.next)
            lines.append(f"| {state} | {event.__name__} | {row.action} | {after} |")
    for where, events in late.items():
        lines.append(f"| {where} | {', '.join(events)} | *nothing* | {where} |")
    return "\n".join(lines)


PARTS = {
    "coordinator_diagram": f"```mermaid\n{mermaid(COORDINATOR)}\n```",
    "coordinator_table": rows(COORDINATOR),
    "participant_diagram": f"```mermaid\n{mermaid(PARTICIPANT)}\n```",
    "participant_table": rows(PARTICIPANT),
}


def renewed(text: str) -> str:
    """Return the page with its generated parts up to date."""
    return _PART.sub(lambda part: f"{part[1]}{PARTS[part[2]]}{part[3]}", text)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
