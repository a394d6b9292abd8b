"""Random histories of filtered publications in memory.

`test_partition_histories.py` has those on servers.
"""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from tests.merge.model_partitions import COURSES, JOINS, TABLES, PartitionNodes, play_filtered
from twopc.merge.protections import MergeProtection
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.model_check import unknown
from twopc.sim.scenario.values import Cell


@pytest.mark.parametrize("joins", JOINS)
@pytest.mark.parametrize("course", COURSES)
def test_whoever_belongs_has_the_row(joins: str, course: str) -> None:
    """Partitions and mappings are right, and nothing is lost, wherever sessions are interrupted."""

    async def all_of_them() -> int:
        travelled = 0
        for seed in range(60):
            tracking = ("row", "column")[seed % 2]
            history = await play_filtered(
                f"{joins} {course} {seed}", joins=joins, course=course, tracking=tracking
            )
            travelled += sum(each.downloaded + each.deferred for each in history.reports)
        return travelled

    assert asyncio.run(all_of_them()) > 300


@pytest.mark.parametrize(
    "protection",
    [
        MergeProtection.PAST_MAPPINGS,
        MergeProtection.PAST_TOUCHED,
        MergeProtection.CHILDREN_FOLLOW,
        MergeProtection.DEFERRAL,
    ],
)
def test_without_a_protection(protection: MergeProtection) -> None:
    """Random histories find that a protection is missing."""

    async def found() -> None:
        for seed in range(200):
            await play_filtered(f"precomputed plain {seed}", without={protection})

    with pytest.raises(AssertionError):
        asyncio.run(found())


@pytest.mark.parametrize("comes_again", [True, False])
def test_what_is_touched_in_a_partition(comes_again: bool) -> None:
    """A row of the partition is sent again only on request; any other row is sent as leaving."""
    nodes = PartitionNodes(column_tracking=False, is_precomputed=True)
    above, inside, outside = nodes.nodes["pub"], UUID(int=3 << 64), UUID(int=6 << 64)
    above.write(TABLES[0], inside, (0, 0, 0))
    above.write(TABLES[0], outside, (1, 1, 0))
    newest = above.close().number
    partition = above.neighbours["anna"].partition
    assert above.mappings is not None and partition is not None
    above.mappings.touch(TABLES[0], partition, [inside, outside], newest, comes_again=comes_again)
    upto = above.close().number
    on_its_way = above.outgoing(TABLES[0], "anna", newest, upto)
    expected = [(inside, False)] * comes_again + [(outside, True)]
    assert [(each.rowguid, each.leaves) for each in on_its_way] == expected


FILE = """
twopc: 1
name: filtered
about: A filter.
topology: {{replication: merge, publisher: pub, subscribers: [anna]}}
tables:
  t:
    columns: {{id: int primary key, who: text, due: timestamptz}}
    merge: {{filter: "{condition}"}}
sessions: {{a: {{node: anna, steps: [s: sync]}}}}
orders: [{{name: o, steps: [s], expect: {{tables: {{t: {{pub: []}}}}}}}}]
"""


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("due < clock_timestamp()", "the model does not know a filter that calls clock_timestamp"),
        ("who = current_user", "a filter that calls current_user"),
        ("msrepl.region() = who", "the model does not know the function msrepl.region()"),
        ("exists (select 1)", "the model does not know a filter that looks at another table"),
        ("id = msrepl.host_name()", "operator does not exist: integer = text (42883)"),
        ("whom = msrepl.host_name()", 'column "whom" does not exist (42703)'),
    ],
)
def test_what_the_model_does_not_evaluate(condition: str, message: str) -> None:
    """Before anything is played, the message names what is not evaluated, or the server's error."""
    found = [text for _, text in unknown(parse(FILE.format(condition=condition)).scenario, Cell())]
    assert len(found) == 1
    assert message in found[0]
