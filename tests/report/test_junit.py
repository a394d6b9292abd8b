"""Tests of JUnit XML: the fields that CI systems read, and quoting of any text."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.fix_golden import Golden
from tests.report.recorded import HOSTILE, NAMES, ended, made, records, sent
from twopc.sim.report.junit import junit
from twopc.sim.report.verdict import verdict


@pytest.mark.parametrize("name", ["failing", "stuck"])
def test_golden(name: str, golden: Golden) -> None:
    golden(f"report/junit_{name}.xml", junit(records(name)))


@pytest.mark.parametrize("name", NAMES)
def test_it_counts_as_the_verdict_does(name: str) -> None:
    told = verdict(records(name))
    (suite,) = ElementTree.fromstring(junit(records(name)))
    assert suite.get("name") == told["scenario"]
    assert suite.get("tests") == str(len(told["groups"]))
    assert suite.get("failures") == str(sum(bool(group["failed"]) for group in told["groups"]))
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == [group["name"] for group in told["groups"]]
    assert [case.find("failure") is None for case in cases] == [
        group["verdict"] == "pass" for group in told["groups"]
    ]
    assert all("ms" in (case.findtext("system-out") or "") for case in cases)


def test_what_was_not_judged_is_an_error() -> None:
    (suite,) = ElementTree.fromstring(junit(records("lost_update")[:20]))
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "0", "1")
    error = suite.find("testcase/error")
    assert error is not None
    assert (error.get("type"), error.get("message")) == (
        "unfinished",
        "the history ends before its verdict",
    )


def test_any_text_can_stand_in_it() -> None:
    history = made(
        sent(HOSTILE), ended("rejected", message=HOSTILE), scenario=HOSTILE, file=HOSTILE
    )
    (suite,) = ElementTree.fromstring(junit(history))
    assert suite.get("name") == HOSTILE.replace("\x07", "\\x07").replace("\x1b", "\\x1b")
