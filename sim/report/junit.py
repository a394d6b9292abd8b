"""A run as JUnit XML, which every CI system shows: the scenario a suite, each order a case.

A case that failed tells where it was expected otherwise and how to play it again; every case holds its
timeline as text.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from xml.etree import ElementTree

from sim.report.history import Record
from sim.report.played import Played, played
from sim.report.terminal import console
from sim.report.timeline import draw, timeline
from sim.report.verdict import Verdict, verdict

#: What XML 1.0 cannot hold, not even escaped.
_UNSPEAKABLE = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(records: Sequence[Record]) -> str:
    """The XML document."""
    told = verdict(records)
    suite = ElementTree.Element("testsuite", name=_text(told["scenario"]), file=_text(told["file"]))
    orders = list(played(records))
    verdicts = [order.verdict for order in orders]
    kinds = [each["kind"] for each in verdicts]
    errors = kinds.count("unfinished")
    suite.set("tests", str(len(orders)))
    suite.set("failures", str(sum(map(bool, kinds)) - errors))
    suite.set("errors", str(errors))
    suite.set("time", _seconds(sum(each["elapsed_ms"] for each in verdicts)))
    for order, each in zip(orders, verdicts, strict=True):
        _case(suite, order, each)
    root = ElementTree.Element("testsuites", {n: suite.get(n, "") for n in _TOTALS})
    root.append(suite)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + _string(root) + "\n"


_TOTALS = ("tests", "failures", "errors", "time")


def _case(suite: ElementTree.Element, order: Played, told: Verdict) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=_text(f"{suite.get('name')}"),
        name=_text(order.name),
        file=suite.get("file", ""),
        time=_seconds(told["elapsed_ms"]),
    )
    properties = ElementTree.SubElement(case, "properties")
    gids = dict.fromkeys(record.gid for record in order.records if record.gid)
    for name, value in (("repro", told["repro"]), *(("gid", gid) for gid in gids)):
        if value:
            ElementTree.SubElement(properties, "property", name=name, value=_text(value))
    if told["failures"]:
        case.set("line", str(told["failures"][0].get("line", 0)))
    if told["kind"]:
        tag = "error" if told["kind"] == "unfinished" else "failure"
        failure = ElementTree.SubElement(
            case, tag, type=told["kind"], message=_text(told["failures"][0]["message"])
        )
        failure.text = _text(_failures(suite.get("file", ""), told))
    ElementTree.SubElement(case, "system-out").text = _text("\n" + _timeline(order))


def _failures(file: str, told: Verdict) -> str:
    lines = [""]
    for failure in told["failures"]:
        if "line" in failure:
            lines.append(f"{file}:{failure['line']}:{failure['column']}")
        lines += [*failure.get("excerpt", ()), failure["message"]]
    if told["repro"]:
        lines.append(f"again:  {told['repro']}")
    return "\n".join(lines) + "\n"


def _timeline(order: Played) -> str:
    out = io.StringIO()
    draw(timeline(order.records), console(out, width=100))
    return out.getvalue()


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.6f}"


def _text(text: str) -> str:
    """`text` with what XML cannot hold written as an escape."""
    return _UNSPEAKABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def _string(root: ElementTree.Element) -> str:
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)
