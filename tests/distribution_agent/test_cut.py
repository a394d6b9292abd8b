"""Tests of cutting commands by article, plain and compiled.

No command is lost, and each article's commands keep their order.
"""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fix_core import compiled, plain
from twopc.subscriber.distribution_agent.arrays import block, numbers, texts

pytestmark = pytest.mark.xdist_group("core")  # one process compiles it

COMMANDS = st.lists(
    st.tuples(st.integers(1, 5), st.integers(1, 3), st.binary(max_size=300)), max_size=40
)


@pytest.fixture(scope="module", params=["plain", "compiled"])
def core(request: pytest.FixtureRequest) -> ModuleType:
    """Return the module, plain or compiled."""
    if request.param == "plain":
        return plain("cut")
    return compiled("cut", request.config.cache.mkdir("core"))


@settings(deadline=None)
@given(COMMANDS, st.sets(st.integers(1, 6)))
def test_any_commands(
    core: ModuleType, drawn: list[tuple[int, int, bytes]], apart: set[int]
) -> None:
    commands = [(article * 100 + kind, text) for article, kind, text in drawn]
    found = core.cut_by_article(*block(commands), sorted(apart))
    assert [article for article, *_ in found] == [
        each
        for each in (0, *sorted(apart))
        if any((code // 100 if code // 100 in apart else 0) == each for code, _ in commands)
    ]
    for article, codes, calls, low, high, count in found:
        expected = [
            (code, text)
            for code, text in commands
            if (code // 100 == article if article else code // 100 not in apart)
        ]
        assert list(zip(numbers(codes, "i"), texts(calls), strict=True)) == expected
        assert (codes, calls) == block(expected)
        assert (low, high, count) == (min(expected)[0], max(expected)[0], len(expected))
