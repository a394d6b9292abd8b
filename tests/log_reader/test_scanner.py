"""Tests that the scanner, compiled or not, yields the same commands as decoder and builder."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.distribution.made import article, columns, delete, insert, propagation, update
from tests.fix_core import compiled, plain
from tests.log_reader.changes import ARTICLES, DAMAGE, HERE, V1, V2, damaged, messages
from tests.log_reader.rig import SLOT, Rig, rows
from twopc.articles import Column
from twopc.distributed_article import DistributedArticle
from twopc.errors import RemoteProtocolError
from twopc.publisher.commands import Command, CommandBuilder
from twopc.publisher.commands import rows as commands_rows
from twopc.publisher.log_reader import planner as planners
from twopc.publisher.logical_publication import NAME
from twopc.publisher.pgoutput import (
    UNCHANGED,
    BeginMessage,
    Decoder,
    RelationMessage,
    RowMessage,
)
from twopc.sim.model.distribution.packets import encode

pytestmark = pytest.mark.xdist_group("core")  # one process compiles it

BEGIN = encode(BeginMessage(100, 7, 900))
RECORDED = """
insert into item select n, 'item ' || n, n / 3.0 from generate_series(1, 5000) as n;
update item set price = price + 1 where id % 2 = 0;
update item set name = null where id < 10;
update item set id = -id where id between 10 and 20;
update item set name = E'a "quote" and a \\\\' where id = 30;
begin; update item set name = 'one' where id = 40; savepoint s; delete from item where id = 41; rollback to s; commit;
insert into item values (6000, (select string_agg(md5(n::text), '') from generate_series(1, 9999) as n), 0);
update item set price = 1 where id = 6000;
insert into plain select n from generate_series(1, 20) as n;
delete from item where id % 3 = 0;
"""


@pytest.fixture(scope="module", params=["plain", "compiled"])
def core(request: pytest.FixtureRequest) -> ModuleType:
    """The scanner's module."""
    if request.param == "plain":
        return plain("plain")
    return compiled("scan", request.config.cache.mkdir("core"))


class Beside:
    """A scanner beside the decoder and builder with which it must agree."""

    def __init__(
        self, core: ModuleType, *articles: DistributedArticle, here: RelationMessage = HERE
    ) -> None:
        self.builder, self.decoder = CommandBuilder(articles), Decoder()
        self.scanner = core.CommandScanner(0, 1000, pauses=False)
        decoded = self.decoder.decode(encode(here))
        assert isinstance(decoded, RelationMessage)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(commands_rows, "RowPlan", core.RowPlan)
            for letter, operation in ((b"I", "ins"), (b"U", "upd"), (b"D", "del")):
                rows = self.builder.sole_call(decoded, operation)
                if rows is not None:
                    self.scanner.plans[letter + b"\0\0\0\1"] = rows.plan(operation)
        self.scanner.scan([BEGIN], 0)

    def scans(self, data: bytes) -> bool:
        """Return whether the scanner accepts the message; its result is compared."""
        before = len(self.scanner.codes)
        try:
            change = self.decoder.decode(data)
        except RemoteProtocolError:
            assert self.scanner.scan([data], 0) == 0
            assert len(self.scanner.codes) == before
            raise
        if self.scanner.scan([data], 0) == 0:
            return False
        assert isinstance(change, RowMessage)
        assert self.commands(before) == list(self.builder.commands(change))
        return True

    def commands(self, first: int = 0) -> list[Command]:
        """Return the commands that the scanner keeps, from one on."""
        scanner, found = self.scanner, []
        assert len(scanner.codes) == len(scanner.hashkeys)
        for at in range(first, len(scanner.codes)):
            code, hashkey = scanner.codes[at], scanner.hashkeys[at]
            size, text = scanner.texts[2 * at : 2 * at + 2]
            assert (code[:4], hashkey[:4], size) == (
                b"\0\0\0\4",
                b"\0\0\0\4",
                len(text).to_bytes(4),
            )
            number = int.from_bytes(code[4:])
            found.append((number // 100, number % 100, int.from_bytes(hashkey[4:]), text))
        return found


@given(
    st.lists(messages(), min_size=1, max_size=5),
    st.lists(DAMAGE, max_size=8),
    st.sampled_from(ARTICLES),
)
def test_any_messages(
    core: ModuleType,
    drawn: Sequence[bytes],
    damage: Sequence[tuple[int, int, bytes]],
    made: DistributedArticle,
) -> None:
    """The scanner agrees for any messages, complete and damaged."""
    both = Beside(core, made)
    for data in [*drawn, *drawn]:
        both.scans(data)
        for each in damage:
            try:
                both.scans(damaged(data, *each))
            except RemoteProtocolError:
                continue


@pytest.mark.parametrize("made", ARTICLES)
def test_what_is_usual_is_taken(core: ModuleType, made: DistributedArticle) -> None:
    """The scanner accepts common changes, with NULL, quotes, and long values that are not sent again."""
    both = Beside(core, made)
    rows: list[list[bytes | None]] = [
        [b"1", b"2", b"3", V1], [b"1", b"", b'"3\\', V2], [b"7", b"x" * 70_000, b"4", V1]
    ]  # fmt: skip
    for old in rows:
        assert both.scans(encode(insert(HERE, old)))
        assert both.scans(encode(delete(HERE, old)))
        for new in rows:
            assert both.scans(encode(update(HERE, old, new)))
    first = rows[2]
    sent = encode(update(HERE, first, [*first[:3], V2]), [first[0], UNCHANGED, first[2], V2])
    assert both.scans(sent)


@pytest.mark.parametrize(
    "made",
    [
        (article(*columns(4)), article(*columns(4), number=8)),
        (article(*columns(4), row_filter="c1 > 1"),),
        (article(*columns(4), how=propagation("SQL", "MCALL", "XCALL")),),
        (article(*columns(3)),),  # does not match
        (article(Column(name="c1", type="integer"), table="another"),),
    ],
)
def test_what_is_left_to_the_caller(core: ModuleType, made: Sequence[DistributedArticle]) -> None:
    both = Beside(core, *made)
    row = [b"1", b"2", b"3", V1]
    for change in (insert(HERE, row), update(HERE, row, [*row[:3], V2]), delete(HERE, row)):
        assert not both.scans(encode(change))


def test_a_length_that_is_not_that_of_its_value(core: ModuleType) -> None:
    """A message with any other byte, or without its end, is refused or yields what decoder and builder yield."""
    both = Beside(core, ARTICLES[0])
    row: list[bytes | None] = [b"1", None, b"3" * 20, V1]
    for change in (
        insert(HERE, row), delete(HERE, row), update(HERE, row, [b"1", b"4", *row[2:]]),
        update(HERE, row, [b"1", None, b"3" * 300, V2]),
    ):  # fmt: skip
        data = encode(change)
        assert both.scans(data)
        for at in range(len(data)):
            with pytest.raises(RemoteProtocolError):
                both.scans(data[:at])
            for other in {(data[at] + 1) % 256, (data[at] - 1) % 256, *b"tnuNOK\0"} - {data[at]}:
                with suppress(RemoteProtocolError):
                    both.scans(data[:at] + bytes([other]) + data[at + 1 :])


async def test_what_a_server_sends(core: ModuleType, both: Rig) -> None:
    """Recorded messages of a server yield the same rows with every scanner and in blocks of any size."""
    await both.pub.execute("create table plain (id int primary key)")
    await both.publish("plain", propagation=propagation("SQL", "SQL", "SQL"))
    for text in RECORDED.strip().split(";\n"):
        await both.pub.execute(text.encode())
    query = (
        "select data from pg_logical_slot_peek_binary_changes(%s, null, null, 'proto_version', '1', "
        "'publication_names', %s)"
    )
    recorded = [data for (data,) in await rows(both.pub, query, SLOT, NAME)]
    made: list[list[bytes]] = []
    async with both.reader() as reader:
        assert reader._planned is not None
        known = planners.ReaderArticles(builder=reader._planned.builder, originators={})
        for scanner, scans, size in (
            (core, True, 7),
            (core, True, 2000),
            (plain("scan"), True, 2000),
            (plain("scan"), False, 999),
        ):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(planners, "CommandScanner", scanner.CommandScanner)
                patch.setattr(commands_rows, "RowPlan", scanner.RowPlan)
                if not scans:  # every change is left to decoder and builder
                    patch.setattr(CommandBuilder, "sole_call", lambda *_: None)
                planner = planners.LogPlanner(known, publisher=1, read_to=0, next_xid=1000)
                for at in range(0, len(recorded), size):
                    planner.feed(recorded[at : at + size])
                made.append(planner.take().blocks)
    assert len(recorded) > 9_000
    assert made[0] == made[1] == made[2] == made[3]
