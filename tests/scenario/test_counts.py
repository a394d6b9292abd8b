"""Tests of the expected numbers of committed sessions and rejected steps, and of `any`."""

from __future__ import annotations

import pytest

from tests.scenario.test_expect import Made

REFUSED = ("rejected", {"conflict": {"kind": "version_mismatch"}})


@pytest.mark.parametrize(
    ("count", "got"),
    [
        ("2", None),
        ("{exactly: 2}", None),
        ("{at_least: 1, at_most: 2}", None),
        ("1", "expected 1 session to commit, got 2"),
        ("{at_most: 1}", "expected at most 1 session to commit, got 2"),
        ("{at_least: 3, at_most: 4}", "expected at least 3 and at most 4 sessions to commit, got 2"),
    ],
)  # fmt: skip
def test_committed(count, got):
    assert Made(f"{{committed: {count}}}").judged() == ([] if got is None else [(got, "safety")])


def test_a_session_in_doubt_may_have_committed():
    made = Made("{committed: 2, sessions: {bob: in doubt}, steps: {b_end: in_doubt}}")
    made.ends["b_end"] = ("in_doubt", {})
    made.outcomes["bob"] = "in doubt"
    assert made.judged() == [("expected 2 sessions to commit, got 1", "unknown")]
    made = Made("{committed: 3, sessions: {bob: in doubt}, steps: {b_end: in_doubt}}")
    made.ends["b_end"] = ("in_doubt", {})
    made.outcomes["bob"] = "in doubt"
    assert made.judged() == [("expected 3 sessions to commit, got 1", "safety")]


@pytest.mark.parametrize(
    ("count", "refused", "got"),
    [
        ("1", True, None),
        ("0", False, None),
        ("1", False, "expected 1 step to be rejected with version_mismatch, got 0"),
        ("0", True, "expected 0 steps to be rejected with version_mismatch, got 1"),
    ],
)  # fmt: skip
def test_rejected(count, refused, got):
    made = Made(f"{{otherwise: any, rejected: {{version_mismatch: {count}}}}}")
    if refused:
        made.ends["b_write"] = REFUSED
    assert made.judged() == ([] if got is None else [(got, "safety")])


def test_counts_name_their_checks_and_offer_nothing_to_accept():
    made = Made("{committed: 1, rejected: {row_missing: 1}}")
    failures = made.verdict().failures
    assert [each.check for each in failures] == ["committed", "rejected.row_missing"]
    assert [each.actual for each in failures] == [None, None]
    assert [each.path[-1] for each in failures] == ["committed", "row_missing"]


@pytest.mark.parametrize(
    ("expect", "passes"),
    [
        ("{steps: {b_write: any}}", True),
        ("{otherwise: any}", True),
        ("{otherwise: any, steps: {b_write: ok}}", False),
        ("{otherwise: ok}", False),
        ("{steps: {b_write: {blocked_by: a_write, then: any}}}", False),
    ],
)
def test_any(expect, passes):
    made = Made(expect)
    made.ends["b_write"] = REFUSED
    assert (made.judged() == []) == passes


def test_any_is_no_hang():
    made = Made("{otherwise: any}")
    del made.ends["b_write"]
    assert made.judged() == [("b_write did not end", "liveness")]


def test_a_step_that_is_counted_need_not_be_named():
    """A rejection that is counted need not be expected of a certain step.

    In generated orders, which step is rejected depends on the order.
    """
    made = Made("{rejected: {version_mismatch: 1}}")
    made.ends["b_write"] = REFUSED
    assert made.judged() == []
    made = Made("{rejected: {row_missing: 0}}")
    made.ends["b_write"] = REFUSED
    assert made.judged() == [("b_write: expected ok, got rejected: version_mismatch", "safety")]
