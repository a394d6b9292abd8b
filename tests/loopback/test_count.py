"""Tests of the count: each fault that it must detect makes it fail."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.loopback.count import compare
from tests.loopback.workload import Change, Ledger

OWN: Change = ("item", "ins", 1, 10)
THEIRS: Change = ("item", "upd", 1, 11)
LOCAL: Change = ("line", "del", 2, 0)


@pytest.mark.parametrize(
    ("seen", "wrong"),
    [
        ([THEIRS, LOCAL], None),
        ([THEIRS, LOCAL, OWN], "echoed"),
        ([THEIRS], "missing"),
        ([THEIRS, THEIRS, LOCAL], "twice"),
        ([THEIRS, LOCAL, ("item", "ins", 9, 99)], "strange"),
    ],
)
def test_each_fault_is_counted(seen: list[Change], wrong: str | None) -> None:
    ledger = Ledger()
    ledger.enter("sub1", [OWN])
    ledger.enter("sub2", [THEIRS])
    ledger.enter("pub", [LOCAL])
    found = compare("sub1", Counter(seen), ledger)
    assert found.passed is (wrong is None)
    for each in ("echoed", "missing", "twice", "strange"):
        assert bool(getattr(found, each)) is (each == wrong), str(found)
