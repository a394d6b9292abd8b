"""Report sections of a failed test: the history of its topologies, and the command that reproduces it."""

from __future__ import annotations

import io
import os
import re
import shlex
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

if TYPE_CHECKING:
    from twopc.sim.report.history import HistoryRecord
    from twopc.sim.testing.blocking_bench import TestTopology
    from twopc.sim.testing.merge_doubles import TestMerge

    AnyTopology: TypeAlias = TestTopology | TestMerge

#: The topologies of a test, for its report and for the check of prepared transactions.
TOPOLOGIES = pytest.StashKey["list[AnyTopology]"]()
_WIDTH = 100
_PROPERTIES = pytest.StashKey[bool]()


def topologies_of(item: pytest.Item) -> list[AnyTopology]:
    """Return the topologies that a test has, or shares with others of its scope."""
    used = [id(value) for value in getattr(item, "funcargs", {}).values()]
    return [
        topology
        for node in item.listchain()
        for topology in node.stash.get(TOPOLOGIES, [])
        if node is item or id(topology) in used
    ]


def add_properties(item: pytest.Item) -> None:
    """Add seed and gids of a test's topologies to the JUnit report."""
    if _PROPERTIES in item.stash:
        return
    topologies = topologies_of(item)
    item.stash[_PROPERTIES] = True
    item.user_properties.append(("twopc_seed", topologies[0].seed))
    gids = {record.gid for each in topologies for record in each.history if record.gid}
    if gids:
        item.user_properties.append(("twopc_gids", " ".join(sorted(gids))))


def add_sections(item: pytest.Item, report: pytest.TestReport) -> None:
    """Add timeline, diagram and the command to run the test again, for each topology with a history."""
    for topology in topologies_of(item):
        records = topology.history
        if any(record.session or record.kind == "deliver" for record in records):
            report.sections.append(("twopc timeline", timeline(records)))
            report.sections.append(("twopc diagram", picture(records)))
    report.sections.append(("twopc reproduce", reproduce(item)))


def timeline(records: list[HistoryRecord]) -> str:
    """Return the timeline as text: one lane per session, time downwards."""
    from twopc.sim.report.fold import Fold
    from twopc.sim.report.terminal import console
    from twopc.sim.report.timeline import draw
    from twopc.sim.report.timeline import timeline as drawn

    out = io.StringIO()
    of_order = Fold([each for each in records if each.kind != "header"])
    draw(drawn(of_order), console(out, width=_WIDTH))
    return out.getvalue().rstrip()


def picture(records: list[HistoryRecord]) -> str:
    """Return the diagram of messages between sessions and nodes as text."""
    from twopc.sim.report.diagram import diagram, text
    from twopc.sim.report.recorded_orders import played

    return "\n\n".join(text(diagram(each, columns=_WIDTH)) for each in played(records)).rstrip()


def reproduce(item: pytest.Item) -> str:
    """Return the command that runs this test again, in the order in which it failed."""
    topologies = topologies_of(item)
    words = ["pytest", os.fspath(item.nodeid)]
    order = next((each.bed.order for each in topologies if each.bed.order), "")
    if order:
        words += ["--twopc-orders", order]
    seed = next((each.seed for each in topologies), 0)
    if seed:
        words += ["--twopc-seed", str(seed)]
    return shlex.join(words)


def add_extras(item: pytest.Item, report: Any) -> None:
    """Add the timelines as extras, if pytest-html is installed."""
    if not item.config.pluginmanager.hasplugin("html"):
        return
    for topology in topologies_of(item):
        extra = {
            "name": "twopc timeline",
            "format_type": "text",
            "content": timeline(topology.history),
            "mime_type": "text/plain",
            "extension": "txt",
        }
        report.extras = [*getattr(report, "extras", []), extra]


def write_report(item: pytest.Item, records: list[HistoryRecord]) -> None:
    """Write history and page of a failed test, if a folder for reports is set."""
    from twopc.sim.pytest_plugin.config import settings_of

    requested = settings_of(item.config).report
    if not requested:
        return
    from twopc.sim.report.html import page

    name = re.sub(r"[^\w.-]+", "_", item.nodeid).strip("_")
    folder = item.config.invocation_params.dir / requested / name
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{record.line()}\n" for record in records)
    (folder / "history.jsonl").write_text(lines, encoding="utf-8")
    (folder / "report.html").write_text(page(records), encoding="utf-8")
