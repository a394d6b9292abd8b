"""Tests of reading commands from stored blocks, as whole arrays or individually, with the same result."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.distribution.blocks import LoggedTransaction, Made, write_blocks
from tests.distribution_agent.ends import PUBLISHER, SUBSCRIBER, Ends
from twopc.publisher.log_reader import rows
from twopc.subscriber.distribution_agent import queries
from twopc.subscriber.distribution_agent.arrays import int4, int4s, lsn8, lsn8s, numbers, texts
from twopc.subscriber.distribution_agent.loads import split_rows
from twopc.subscriber.distribution_agent.planner import Batch, OwnCommands
from twopc.subscriber.distribution_agent.profile import Profile
from twopc.subscriber.distribution_agent.source import ServerSource, checked

_OWN, _OTHER = 5, 6


async def source(ends: Ends, **profile: Any) -> ServerSource:
    """Open the agent's connection to the distribution database."""
    return await ServerSource.open(
        ends.distribution.dsn,
        publisher=PUBLISHER,
        subscriber=SUBSCRIBER,
        profile=Profile(**profile),
        news=asyncio.Event(),
    )


def drawn(chance: random.Random, count: int, articles: Sequence[int], *, own: bool) -> list[
    tuple[LoggedTransaction, list[Made]]
]:  # fmt: skip
    """Return transactions of up to five commands; some are the Subscriber's own, some are posted messages."""
    made: list[tuple[LoggedTransaction, list[Made]]] = []
    for place in range(1, count + 1):
        who = chance.choice([0, 0, _OWN, _OTHER]) if own else chance.choice([0, _OTHER])
        commands: list[Made] = [
            (chance.randint(1, 3) if own else 2, chance.choice(articles), chance.randint(0, 63), f"{place}.{n}")
            for n in range(chance.randint(1, 5))
        ]  # fmt: skip
        if own and chance.random() < 0.05:
            who, commands = 0, [(20, 0, 0, '{"id": 1}')]
        made.append((LoggedTransaction(place * 10, place, 0, who), commands))
    return made


def batches(bounds: Sequence[int]) -> list[Batch]:
    """Return the batches between the positions."""
    return [
        Batch(after=after, upto=upto, seqnos=(), articles=(7, 8), commands=0)
        for after, upto in pairwise(bounds)
    ]  # fmt: skip


@pytest.mark.parametrize("limit", [3, 7, 2000])
@pytest.mark.parametrize(
    ("articles", "own"),
    [((7,), False), ((7, 8), False), ((7, 8, 9), False), ((7, 8), True)],
    ids=["one article", "two", "one that is not wanted", "own changes among them"],
)
@pytest.mark.parametrize("apart", [(), (8,)], ids=["together", "apart"])
async def test_cut_out_or_taken_out(
    ends: Ends,
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
    articles: tuple[int, ...],
    own: bool,
    apart: tuple[int, ...],
) -> None:
    """Both ways give the same commands, wherever blocks and batches begin and end."""
    monkeypatch.setattr(rows, "BLOCK_COMMANDS", limit)
    chance = random.Random(limit)
    transactions = drawn(chance, 60, articles, own=own)
    cut = chance.randint(1, 59)
    for some in (transactions[:cut], transactions[cut:]):  # in two writes
        await write_blocks(ends.admin, ends.publisher_id, some)
    at = await source(ends)
    try:
        rows_of = {queries.BATCHES: 0, queries.CUT_OUT: 0}
        for _ in range(12):
            bounds = sorted(chance.sample(range(0, 610, 5), 4))
            wanted = batches(bounds)
            params = (
                int4(ends.publisher_id), int4s((7, 8)), int4(_OWN), int4s(()), int4(1), int4s(apart),
                lsn8s([each.after + 1 for each in wanted[1:]]), lsn8(bounds[0]), lsn8(bounds[-1]),
            )  # fmt: skip
            found = []
            for query in (queries.BATCHES, queries.CUT_OUT):
                result = checked(await at.pipe.run((query, params))).results[0]
                loads = split_rows(wanted, result, apart)
                rows_of[query] += result.ntuples
                found.append(
                    [
                        (
                            [
                                pair
                                for part in load.parts
                                for pair in zip(numbers(part.codes, "i"), texts(part.calls), strict=True)
                            ],
                            load.posted,
                            all(
                                (part.low, part.high)
                                == (min(numbers(part.codes, "i")), max(numbers(part.codes, "i")))
                                for part in load.parts
                            ),
                        )
                        for load in loads
                    ]
                )  # fmt: skip
            assert found[0] == found[1]
            assert all(fits for _, _, fits in found[0])
        if limit < 2000 and articles == (7,):  # a row for each block
            assert rows_of[queries.CUT_OUT] > rows_of[queries.BATCHES]
    finally:
        await at.close()


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize(
    "own", [OwnCommands(_OWN), OwnCommands(_OWN, (8,)), OwnCommands(_OTHER), OwnCommands()]
)
async def test_queries_leave_out_what_is_its_own(
    ends: Ends, monkeypatch: pytest.MonkeyPatch, own: OwnCommands, large: bool
) -> None:
    """Queries leave out exactly the commands that `OwnCommands` names, in every way of reading."""
    monkeypatch.setattr(rows, "BLOCK_COMMANDS", 7)
    transactions = drawn(random.Random(1), 60, (7, 8), own=True)
    for place, who in enumerate((_OWN, _OTHER, 0), start=61):
        posted: list[Made] = [(20, 0, 0, f'{{"id": {place}}}')]
        transactions.append((LoggedTransaction(place * 10, place, 0, who), posted))
    await write_blocks(ends.admin, ends.publisher_id, transactions)
    expected = [
        text
        for transaction, commands in transactions
        for _, article_id, _, text in commands
        if not own.has(transaction.originator or None, article_id)
    ]
    at = await source(ends, block_commands=1)
    try:
        for commands in (2,) if large else (1, 100):
            wanted = [
                Batch(
                    after=seqno - 10,
                    upto=seqno,
                    seqnos=(seqno,),
                    articles=(7, 8),
                    commands=commands,
                )
                for seqno in range(10, 640, 10)
            ]
            if not large:
                wanted = [replace(wanted[-1], after=0, seqnos=(), commands=commands)]
            left: list[str] = []
            async for load in at.loads(wanted, own=own, streams=1):
                left += [text.decode() for part in load.parts for text in texts(part.calls)]
                left += [json.dumps(each.body) for each in load.posted]
            assert sorted(left) == sorted(expected)
    finally:
        await at.close()


async def test_a_window_from_anywhere(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window has every transaction after its position, including large ones in parts."""
    monkeypatch.setattr(rows, "BLOCK_COMMANDS", 4)
    chance = random.Random(1)
    transactions = drawn(chance, 40, (7,), own=True)
    large: list[Made] = [(1, 7, 0, f"{n}") for n in range(11)]
    transactions.append((LoggedTransaction(1000, 41, 0, 0), large))
    await write_blocks(ends.admin, ends.publisher_id, transactions)
    await ends.admin.execute(
        "insert into msrepl.msdistribution_agents (publisher_database_id, subscriber) values (%s, %s)"
        " on conflict do nothing",
        (ends.publisher_id, SUBSCRIBER),
    )
    at = await source(ends)
    try:
        for position in range(0, 1010, 5):
            _, window = await at.window(position)
            rest = [each for each in transactions if each[0].seqno > position]
            assert list(window.seqnos) == [each.seqno for each, _ in rest]
            assert list(window.xids) == [each.xid for each, _ in rest]
            assert list(window.originators) == [each.originator for each, _ in rest]
            assert list(window.commands) == [len(commands) for _, commands in rest]
            assert list(window.bytes) == [
                sum(len(text) for *_, text in commands) for _, commands in rest
            ]
    finally:
        await at.close()
