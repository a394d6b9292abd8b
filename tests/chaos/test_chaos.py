"""A sample of the chaos run, and its judge."""

from __future__ import annotations

import pytest

from tests.chaos.__main__ import KINDS, judge, run

PAID = ("a", 1, 2, 10)
ACCOUNTS = [(1, 990), (2, 1010), *((account, 1000) for account in range(3, 13))]


def test_everything_is_struck_once_and_nothing_is_lost() -> None:
    """Each kind is struck once, and nothing is lost.

    ``python -m tests.chaos`` runs for three minutes.
    """
    found = run(seconds=0, seed=2, plain=1, every=4)
    assert found["strikes"] == len(KINDS)
    assert found["committed"] > 0


@pytest.mark.parametrize(
    ("told", "entries", "accounts", "says"),
    [
        ({"a": "committed"}, [], [(n, 1000) for n in range(1, 13)], "told committed, and lost: ['a']"),
        ({"a": "refused 40001"}, [PAID], ACCOUNTS, "told refused, and there: ['a']"),
        ({"a": "refused 57014"}, [], [(n, 1000) for n in range(1, 13)], "refused for good: ['57014']"),
        ({}, [PAID], ACCOUNTS, "never begun, and there: ['a']"),
        ({"a": "begun"}, [PAID], [(1, 991), *ACCOUNTS[1:]], "balances that the ledger does not make"),
    ],
)  # fmt: skip
def test_the_judge_sees(told: dict[str, str], entries: list, accounts: list, says: str) -> None:
    with pytest.raises(SystemExit, match="BROKEN") as caught:
        judge(told, entries, accounts)
    assert says in str(caught.value)


def test_what_nobody_was_told_may_be_either() -> None:
    found = judge({"a": "begun", "b": "begun"}, [PAID], ACCOUNTS)
    assert (found["told nothing, committed"], found["told nothing, rolled back"]) == (1, 1)
