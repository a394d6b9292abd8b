"""Export of the order that is shown: as a scenario file with expectations, a test, a page or a link.

Writes no file. Must not run inside an event loop: an exported order is played again and judged.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from twopc.errors import ScenarioError
from twopc.sim.explore.bases import BY_HAND
from twopc.sim.explore.cards import as_item
from twopc.sim.explore.drafts import ScenarioDraft
from twopc.sim.explore.order_expectation import expectation
from twopc.sim.explore.plays import OrderPlay, PlayChance, missed_expectations, play
from twopc.sim.explore.variants import AS_IN_FILE, PROTECTION, placed_names
from twopc.sim.explore.wire.runs import ExportedText, PlayVariant, WireFault
from twopc.sim.model.values import BEGAN_S
from twopc.sim.report.html import page
from twopc.sim.scenario import check
from twopc.sim.scenario.check import LoadedScenario
from twopc.sim.scenario.document_text import document_text
from twopc.sim.scenario.judging import FAILURE_KINDS
from twopc.sim.scenario.matrix import path_of
from twopc.sim.scenario.model import Order, Scenario
from twopc.sim.scenario.parts import EVERY_NODE
from twopc.sim.scenario.text import Path, listed

#: Maximum length of a file's stem in characters: file names have at most 255 bytes.
_STEM_MAX = 60
#: Time offset of a second play, which shows what depends on the clock: days, and no whole hours.
_LATER_S = 34_585_873.579
_TEST = '''"""{about}

Played by twopc on PostgreSQL: pip install 'twopc[pytest]', then pytest {filename}
"""

from __future__ import annotations

import subprocess
import sys

SCENARIO = {text}


def test_{name}() -> None:
    """The order comes to what the scenario expects of it."""
    command = [sys.executable, "-m", "twopc.sim", "run", "-"]
    done = subprocess.run(command, input=SCENARIO, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
'''


def export(
    loaded: LoadedScenario, variant: PlayVariant, kind: str, name: str, path: str
) -> ExportedText:
    """Return the order that is shown as a text.

    Raises:
        ScenarioError: the order cannot be exported; the message gives the reason.
    """
    if kind == "link":
        return _link(path, variant)
    if kind == "html":
        return _exported(loaded, "html", "text/html", _page(play(loaded, variant)), [])
    if kind not in ("scenario", "pytest"):
        raise ScenarioError(f"'{kind}' is no kind of export: scenario, pytest, html or link")
    text, remarks = _scenario(loaded, variant, name or BY_HAND)
    if kind == "scenario":
        return _exported(loaded, "twopc.yaml", "application/yaml", text, remarks)
    return _test(loaded, text, remarks)


def _page(done: OrderPlay) -> str:
    """Return the report of the order, with broken invariants and unmet expectations."""
    broken = [
        {"message": f"{each['name']}: {each['text']}", "kind": "safety", "check": each["name"]}
        for each in done.run["invariants"]
        if not each["holds"]
    ]
    known = {each["check"] for each in broken}
    judged = missed_expectations(done.chosen, done.verdict) if done.run["possible"] is True else ()
    broken += [
        {"message": each.message, "kind": each.kind, "check": each.check}
        for each in judged
        if each.check not in known
    ]
    kinds = {each["kind"] for each in broken}
    verdict = {
        "name": done.chosen.case.name,
        "group": done.chosen.case.group,
        "verdict": "fail" if broken else "pass",
        "kind": next((each for each in FAILURE_KINDS if each in kinds), None),
        "elapsed_ms": done.own[-1].t_us / 1000,
        "notes": [],
        "failures": broken,
        "behaviour": done.run["behaviour"],
        "repro": None,
    }
    last = dataclasses.replace(done.own[-1], seq=done.own[-1].seq + 1, kind="verdict", data=verdict)
    return page([*done.records, last])


def _exported(
    loaded: LoadedScenario, suffix: str, media_type: str, text: str, remarks: Sequence[str]
) -> ExportedText:
    stem = re.sub(r"[^\w.-]+", "_", loaded.scenario.name)[:_STEM_MAX]
    return {
        "filename": f"{stem}.{suffix}",
        "media_type": f"{media_type}; charset=utf-8",
        "text": text,
        "remarks": [*remarks],
    }


def _link(path: str, variant: PlayVariant) -> ExportedText:
    """Return the URL fragment that opens the order on a page, without the token of the running server."""
    named = [("file", path), ("name", variant.get("listed") or "")]
    parts = [(name, quote(value, safe="")) for name, value in named if value] + [
        (name, quote(json.dumps(value, ensure_ascii=False, separators=(",", ":")), safe=""))
        for name, value in variant.items()
        if value and name != "listed"
    ]
    return {
        "filename": "",
        "media_type": "text/plain; charset=utf-8",
        "text": "#" + "&".join("=".join(each) for each in parts),
        "remarks": ["it opens in a page of a server that runs: put it behind the address"],
    }


def _test(loaded: LoadedScenario, text: str, remarks: Sequence[str]) -> ExportedText:
    stem = re.sub(r"\W+", "_", loaded.scenario.name).strip("_").lower()[:_STEM_MAX]
    if not f"test_{stem}".isidentifier():
        stem = re.sub(r"[^a-z0-9]+", "_", stem).strip("_") or "scenario"
    quoted = '"""\\\n' + text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"') + '"""'
    about = " ".join(loaded.scenario.about.split()).replace("\\", "\\\\").replace('"', "'")
    about = "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in about)
    made = _TEST.format(
        about=about or loaded.scenario.name, filename=f"test_{stem}.py", text=quoted, name=stem
    )
    exported = _exported(loaded, "py", "text/x-python", made, remarks)
    return {**exported, "filename": f"test_{stem}.py"}


# -- a scenario of the one order -------------------------------------------------------------------


def _scenario(loaded: LoadedScenario, variant: PlayVariant, name: str) -> tuple[str, list[str]]:
    switched, faults = variant.get("switches") or {}, variant.get("faults") or []
    off = [each.removeprefix(PROTECTION) for each, value in switched.items() if each.startswith(PROTECTION) and value == "off"]  # fmt: skip
    others = {each: value for each, value in switched.items() if not each.startswith(PROTECTION)}
    kept: PlayVariant = {**variant, "switches": others}
    loaded = _by_itself(loaded)
    other = PlayChance(began_s=BEGAN_S + _LATER_S, seed=(loaded.scenario.seed or 0) + 1)
    chances = (PlayChance(), other)
    done, second = (play(loaded, kept, each) for each in chances)
    if done.run["possible"] is not True:
        raise ScenarioError(
            f"this order cannot be, so no file can ask for it: {done.run['possible']['reason']}"
        )
    made = done.chosen.case
    expected, left_out = expectation(done, second)
    order: dict[str, Any] = {
        "name": made.order.name if name == done.chosen.listed else name,  # without its cell
        "steps": [as_item(item) for item in made.items],
        **_of_order(kept, made.order),
        "expect": expected,
    }
    # they replace the matrix
    of_cell: dict[Path, Any] = {(*path_of(key),): value for key, value in done.chosen.cell.values}
    draft = ScenarioDraft(
        document=loaded.document,
        order=order,
        values={**of_cell, **dict(_changed(loaded, kept, made.scenario))},
        more=_faults(loaded, faults),
        # expectations about deliveries cannot hold without agents
        without=["expect"] if switched.get("agents") == "off" else [],
        other=other,
    )
    draft.settle()
    if off:
        draft.add_twin(off, *(play(loaded, variant, each) for each in chances))
    text = draft.checked()
    remarks = [" ".join(each.split()) for each in (*left_out, *draft.remarks)]
    return "".join(f"# {each}\n" for each in remarks) + text, remarks


def _by_itself(loaded: LoadedScenario) -> LoadedScenario:
    """Return the scenario as one file, as a reader of the text does not have the files that it includes."""
    document = loaded.document
    if not document.sources:
        return loaded
    names = listed([PurePath(each).name for each in (document.path, *document.sources)])
    return check.parse(f"# Made of {names}.\n{document_text(document)}", document.path)


def _of_order(variant: PlayVariant, order: Order) -> dict[str, Any]:
    """Return the order's other keys: its isolation, or the switched one, and its faults."""
    result: dict[str, Any] = {}
    level = (variant.get("switches") or {}).get("isolation", AS_IN_FILE)
    if order.isolation:
        is_of_all = [*order.isolation] == [EVERY_NODE]
        result["isolation"] = order.isolation[EVERY_NODE] if is_of_all else dict(order.isolation)
    elif level != AS_IN_FILE:
        result["isolation"] = level
    if order.faults:
        result["faults"] = list(order.faults)
    return result


def _changed(
    loaded: LoadedScenario, variant: PlayVariant, played: Scenario
) -> Iterator[tuple[Path, Any]]:
    """Yield the values of the file that switches change; `played`: the scenario with these switches."""
    for name, value in (variant.get("switches") or {}).items():
        if name in ("commit", "shipping"):
            yield ("topology", name), value
        elif name == "agents":
            yield ("topology", "distribution"), "on request" if value == "on" else "none"
        elif name == "any_client":
            for session, text in played.sessions.items():
                if text.way != loaded.scenario.sessions[session].way:
                    yield ("sessions", session, "way"), text.way


def _faults(
    loaded: LoadedScenario, faults: Sequence[WireFault]
) -> dict[str, Sequence[Mapping[str, Any]]]:
    if not faults:
        return {}
    own = [each.model_dump(by_alias=True, exclude_unset=True) for each in loaded.scenario.faults]
    placed: list[dict[str, Any]] = []
    for name, each in zip(placed_names(loaded.scenario), faults, strict=False):
        one: dict[str, Any] = {"id": name, "at": each["at"], "do": each["do"]}
        when = {key: each[key] for key in ("nth", "session") if each.get(key) not in (None, 1)}
        placed.append({**one, **({"when": when} if when else {})})
    return {"faults": [*own, *placed]}
