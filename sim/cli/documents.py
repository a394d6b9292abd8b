"""What a run leaves in files that somebody has named: JUnit XML of all scenarios, or one's page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from twopc.sim.report.history import HistoryRecord

_TOTALS = ("tests", "failures", "errors")


def junit_of(runs: Sequence[Sequence[HistoryRecord]]) -> str:
    """The suites of several runs in one document."""
    from twopc.sim.report.junit import junit

    roots = [ElementTree.fromstring(junit(records)) for records in runs]
    if len(roots) == 1:
        return junit(runs[0])
    merged = ElementTree.Element("testsuites")
    for name in _TOTALS:
        merged.set(name, str(sum(int(root.get(name, 0)) for root in roots)))
    merged.set("time", f"{sum(float(root.get('time', 0)) for root in roots):.3f}")
    for root in roots:
        merged.extend(root)
    ElementTree.indent(merged)
    text = ElementTree.tostring(merged, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def write_all(
    runs: Sequence[Sequence[HistoryRecord]], *, junit: Path | None, html: Path | None
) -> None:
    """Write what was asked for.

    Raises:
        ConfigurationError: it cannot be written.
    """
    from twopc.sim.cli.report import write

    runs = [records for records in runs if records]
    if not runs:
        return
    if junit is not None:
        write(junit, junit_of(runs))
    if html is not None:
        from twopc.sim.report.html import page

        write(html, page(runs[0]))
