"""M14, M15: Tests of votes: a branch that cannot be prepared votes no, and only such a branch.

The page in docs/ shows the same cases next to the results of psycopg's own methods.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.crash.vote_cases import CASES
from tests.crash.votes_page import ALL, PAGE, Stage, expected, page, play_theirs, stage


@pytest.fixture(scope="module")
def on() -> Iterator[Stage]:
    with stage() as made:
        yield made


@pytest.mark.parametrize("name", ALL)
async def test_votes(on: Stage, name: str) -> None:
    assert await on.ours(name) == expected(ALL[name])
    assert on.rig.prepared() == []


async def test_page_is_up_to_date(on: Stage) -> None:
    """The page matches the results; ``python -m tests.crash.votes_page`` regenerates it."""
    text = PAGE.read_text(encoding="utf-8")
    if f"psycopg {psycopg.__version__}:" not in text:
        pytest.skip("the page shows another version of psycopg")
    assert page(await play_theirs(on)) == text


def test_there_are_enough_cases() -> None:
    assert len(ALL) == sum(map(len, CASES.values())), "two cases of one name"
    assert len(ALL) >= 25
