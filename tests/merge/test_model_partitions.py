"""Drawn histories of filtered publications in memory; on servers they are those of test_partition_histories.py."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Set
from typing import Any

import pytest

from tests.merge.model_partitions import PartitionHistory, PartitionNodes, mappings
from twopc.merge.protections import NOTHING_LEFT_OUT, MergeProtection
from twopc.sim.model.merge.end import ModelMergeEnd
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.model_check import unknown


class WeakEnd(ModelMergeEnd):
    """An end of a session in which rows leave although they were changed."""

    @property
    def _without(self) -> Set[MergeProtection]:
        return {MergeProtection.DEFERRAL}


async def play(
    seed: str,
    *,
    tracking: str = "column",
    is_precomputed: bool = True,
    without: Set[MergeProtection] = NOTHING_LEFT_OUT,
    **play: Any,
) -> PartitionHistory:
    """One history, until it is quiet and judged."""
    nodes = PartitionNodes(column_tracking=tracking == "column", is_precomputed=is_precomputed)
    if MergeProtection.DEFERRAL in without:
        nodes.end_class = WeakEnd
    elif without:
        nodes.begin(mappings(is_precomputed=is_precomputed, without=without))
    history = PartitionHistory(nodes, random.Random(seed), itertools.count(1).__next__)
    await history.play(40, **play)
    assert await history.settle() <= 4
    history.judge_partitions()
    if not play.get("restores"):  # what was lost with a backup, nobody can judge
        await history.judge()
    return history


@pytest.mark.parametrize("joins", ["precomputed", "evaluated"])
@pytest.mark.parametrize("course", ["plain", "aged", "restored"])
def test_whoever_belongs_has_the_row(joins: str, course: str) -> None:
    """Whatever moves, and wherever sessions are cut off: partitions and mappings are right, and nothing is lost."""
    more = {"aged": {"ages": 0.15}, "restored": {"restores": 0.12}}.get(course, {})

    async def all_of_them() -> int:
        travelled = 0
        for seed in range(60):
            tracking = ("row", "column")[seed % 2]
            history = await play(
                f"{joins} {course} {seed}",
                tracking=tracking,
                is_precomputed=joins == "precomputed",
                **more,
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
    """Drawn histories find what is missing."""

    async def found() -> None:
        for seed in range(200):
            await play(f"precomputed plain {seed}", without={protection})

    with pytest.raises(AssertionError):
        asyncio.run(found())


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
        ("due < now()", "the model does not know a filter that calls now"),
        ("who = current_user", "a filter that calls current_user"),
        ("msrepl.region() = who", "the model does not know the function msrepl.region()"),
        ("exists (select 1)", "the model does not know a filter that looks at another table"),
        ("id = msrepl.host_name()", "operator does not exist: integer = text (42883)"),
        ("whom = msrepl.host_name()", 'column "whom" does not exist (42703)'),
    ],
)
def test_what_the_model_does_not_evaluate(condition: str, message: str) -> None:
    """It says so, or what a server would say, before anything is played."""
    found = [text for _, text in unknown(parse(FILE.format(condition=condition)).scenario)]
    assert len(found) == 1
    assert message in found[0]
