"""Constraints on generated orders are refused exactly if no order fulfils them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from twopc.errors import ScenarioError
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.ordering.enumerate import Space

SESSIONS = (("a", "b", "c"), ("x", "y"), ("m", "n"))
STEPS = [step for steps in SESSIONS for step in steps]
HEAD = """\
twopc: 1
name: many
about: x
topology: {publisher: pub, subscribers: [sub1]}
tables: {t: {columns: {id: int primary key}}}
sessions:
"""


def file(before, together):
    lines = [HEAD]
    for number, steps in enumerate(SESSIONS):
        made = ", ".join(f'{{{step}: {{sql: "select 1"}}}}' for step in steps)
        lines.append(f"  s{number}: {{node: sub1, steps: [{made}]}}\n")
    pairs = ", ".join(f'"{one} < {other}"' for one, other in before)
    groups = ", ".join(f"[{', '.join(group)}]" for group in together)
    lines.append(
        f"orders: [{{name: all, generate: {{before: [{pairs}], together: [{groups}]}}}}]\n"
    )
    return "".join(lines)


@st.composite
def groups(draw):
    """Draw up to two disjoint groups of steps."""
    shuffled = draw(st.permutations(STEPS))
    first, second = draw(st.integers(2, 4)), draw(st.integers(2, 3))
    found = [tuple(shuffled[:first]), tuple(shuffled[first : first + second])]
    return found[: draw(st.integers(0, 2))]


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(STEPS)), max_size=3), groups())
@settings(deadline=None, max_examples=150)
def test_refused_if_and_only_if_there_is_no_order(before, together):
    space = Space(SESSIONS, before, together)
    try:
        parse(file(before, together))
    except ScenarioError as error:
        assert space.count == 0, error
    else:
        assert space.count > 0
