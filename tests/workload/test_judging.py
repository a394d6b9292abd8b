"""Of the many failures of a load, a reader gets the first few of each kind."""

from __future__ import annotations

from twopc.sim.scenario.judging.load import SHOWN_MAX, _not_too_many
from twopc.sim.scenario.judging.verdicts import FailedCheck


def failure(check: str, number: int) -> FailedCheck:
    """Return one of many failures."""
    return FailedCheck(path=("workload",), message=f"{check}: {number}", check=check)


def test_few_are_all_told():
    found = [failure("sum", 1), failure("atomic", 1), failure("sum", 2)]
    assert sorted(each.message for each in _not_too_many(found)) == sorted(
        each.message for each in found
    )


def test_many_are_counted():
    found = _not_too_many([failure("atomic", n) for n in range(100)] + [failure("sum", 1)])
    assert [each.message for each in found[:2]] == ["atomic: 0", "atomic: 1"]
    assert found[SHOWN_MAX].message == f"atomic: and {100 - SHOWN_MAX} more like these"
    assert found[-1].message == "sum: 1"
    assert {each.check for each in found} == {"atomic", "sum"}
