"""A run as JUnit XML, which every CI system shows: the scenario is a suite, each order a case.

A failed case says what was expected and how to play it again; every case contains its timeline as text.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from twopc.sim.report.causes import because_of
from twopc.sim.report.event_records import header_of, is_load
from twopc.sim.report.groups import ReportGroup, groups
from twopc.sim.report.history import HistoryRecord
from twopc.sim.report.recorded_orders import PlayedOrder
from twopc.sim.report.terminal import console
from twopc.sim.report.timeline import draw, timeline

#: Characters that XML 1.0 does not allow, not even escaped.
_UNSPEAKABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def junit(records: Sequence[HistoryRecord]) -> str:
    """Return the XML document."""
    header = header_of(records)
    every = groups(records)
    kinds = [group.kind for group in every]
    errors = kinds.count("unfinished")
    suite = ElementTree.Element(
        "testsuite",
        name=_text(str(header.get("scenario", ""))),
        file=_text(str(header.get("file", ""))),
    )
    suite.set("tests", str(len(every)))
    suite.set("failures", str(sum(map(bool, kinds)) - errors))
    suite.set("errors", str(errors))
    suite.set("time", _seconds(sum(group.elapsed_ms for group in every)))
    for group in every:
        _case(suite, group, header)
    root = ElementTree.Element("testsuites", {n: suite.get(n, "") for n in _TOTALS})
    root.append(suite)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


_TOTALS = ("tests", "failures", "errors", "time")


def _case(suite: ElementTree.Element, group: ReportGroup, header: Mapping[str, Any]) -> None:
    """Add the test case of an order name to the suite; a generated order is one case, its failed checks first."""
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=suite.get("name", ""),
        name=_text(group.name),
        file=suite.get("file", ""),
        time=_seconds(group.elapsed_ms),
    )
    properties = ElementTree.SubElement(case, "properties")
    for name, value in _properties(group, header):
        ElementTree.SubElement(properties, "property", name=name, value=_text(value))
    failures = [failure for order in group.failed for failure in order.verdict["failures"]]
    if failures:
        case.set("line", str(failures[0].get("line", 0)))
    if group.kind:
        tag = "error" if group.kind == "unfinished" else "failure"
        message = failures[0]["message"] if failures else group.text()
        text = ElementTree.SubElement(case, tag, type=group.kind, message=_text(message))
        text.text = _text("".join(_failures(suite.get("file", ""), each) for each in group.failed))
    named = len(group.drawn) > 1
    shown = "".join(_timeline(order, group.label(order) if named else "") for order in group.drawn)
    ElementTree.SubElement(case, "system-out").text = _text("\n" + shown)


def _properties(group: ReportGroup, header: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield how to play the order again, its parameters and its global transactions."""
    repro = next((order.verdict["repro"] for order in (*group.failed, *group.orders)), None)
    if repro:
        yield "repro", str(repro)
    if "seed" in header:
        yield "seed", str(header["seed"])
    if group.counts is not None:
        for name in ("orders", "infeasible", "behaviours", "run", "left_out"):
            yield name, str(getattr(group.counts, name))
    for protection in group.twin.get("protections", ()):
        yield "switched_off", str(protection)
    yield from group.cell.items()
    if group.repeats > 1:
        yield "repeats", str(group.repeats)
    gids = dict.fromkeys(r.gid for order in group.drawn for r in order.records if r.gid)
    yield from (("gid", gid) for gid in gids)


def _failures(file: str, order: PlayedOrder) -> str:
    report, lines = order.verdict, [""]
    for failure in report["failures"]:
        if "line" in failure:
            lines.append(f"{failure.get('file') or file}:{failure['line']}:{failure['column']}")
        lines += [*failure.get("excerpt", ()), failure["message"]]
        reasons = zip(("because", "however"), because_of(order.fold, failure), strict=True)
        lines += [f"  {word}  {reason}" for word, reason in reasons if reason]
    if report["repro"]:
        lines.append(f"again:  {report['repro']}")
    return "\n".join(lines) + "\n"


def _timeline(order: PlayedOrder, label: str) -> str:
    out = io.StringIO()
    if label:
        out.write(f"{label}\n")
    if is_load(order.records):
        from twopc.sim.report import load  # loads the histograms: most runs have no load

        out.write("\n".join(load.lines(load.of(order.records))))
    else:
        draw(timeline(order.fold), console(out, width=100))
    return out.getvalue()


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.6f}"


def _text(text: str) -> str:
    """Return `text` with characters that XML cannot represent written as escapes."""
    return _UNSPEAKABLE.sub(lambda result: f"\\x{ord(result[0]):02x}", text)
