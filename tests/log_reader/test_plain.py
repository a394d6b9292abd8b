"""Tests which changes the shortcut of the scanner in plain Python takes; test_scanner.py tests its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.distribution.made import article, columns, delete, insert, names_of, relation, update
from tests.log_reader.changes import ARTICLES, HERE, V1, V2, messages
from tests.log_reader.test_scanner import Beside
from twopc.core import plain, scan
from twopc.distributed_article import DistributedArticle
from twopc.publisher.pgoutput import UNCHANGED, RowMessage
from twopc.sim.model.distribution.packets import encode

Row = list[bytes | None]


class Shortcut(Beside):
    """The scanner of plain Python, whose loops are counted."""

    def __init__(self, patch: pytest.MonkeyPatch, *articles: DistributedArticle) -> None:
        super().__init__(plain, *articles)
        self.loops = 0
        for name in ("_single", "_update"):
            patch.setattr(scan.CommandScanner, name, self._counted(name))

    def _counted(self, name: str) -> Callable[..., bool]:
        real = getattr(scan.CommandScanner, name)

        def counted(*words: object) -> bool:
            self.loops += 1
            return bool(real(*words))

        return counted

    def takes(self, data: bytes) -> bool:
        """Return whether the shortcut converts a message that the scanner accepts."""
        before = self.loops
        assert self.scans(data)
        return self.loops == before


@pytest.mark.parametrize("made", ARTICLES)
def test_usual_changes(made: DistributedArticle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Usual changes are taken, with values of any length below 64 KiB, and NULLs that stay, appear or disappear."""
    both, chance = Shortcut(monkeypatch, made), Random(1)
    values = [b"", b"1", b"n", b"tnt", b"x" * 255, b"x" * 256, b"x" * 65535]
    for _ in range(100):
        # the third column belongs to a key
        old: Row = [b"%d" % chance.randint(1, 10**9), b"%d" % chance.randint(0, 99), b"3", V1]
        if made is ARTICLES[0]:
            old[1:3] = chance.choices([None, *values], k=2)
        new = [old[0], chance.choice([old[1], b"7"]), old[2], V2]
        if made is ARTICLES[0]:
            new[1:3] = chance.choices([old[1], None, *values], k=2)
        assert both.takes(encode(insert(HERE, old)))
        assert both.takes(encode(update(HERE, old, new)))
        assert both.takes(encode(delete(HERE, old)))
    if made is ARTICLES[0]:
        key = RowMessage(HERE, "del", [b"1", None, None, None], None, old_is_key=True)
        assert both.takes(encode(key))


def test_unusual_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loops take values of 64 KiB, quotes and backslashes that are sent, and unchanged values that are not."""
    both = Shortcut(monkeypatch, ARTICLES[0])
    row: Row = [b"1", b"2", b"3", V1]
    for value in (b"x" * 65536, b'"', b"\\"):
        other: Row = [b"1", b"2", value, V1]
        assert not both.takes(encode(insert(HERE, other)))
        assert not both.takes(encode(update(HERE, row, other)))
        # not among the values of the command
        assert both.takes(encode(update(HERE, other, row))) == (len(value) == 1)
        assert both.takes(encode(delete(HERE, other))) == (len(value) == 1)
    changed = update(HERE, row, [*row[:3], V2])
    assert not both.takes(encode(changed, [b"1", UNCHANGED, b"3", V2]))
    assert both.takes(encode(changed))
    # values whose lengths are those of quotes and backslashes
    assert both.takes(encode(insert(HERE, [b"1", b"2" * 34, b"3" * 92, V1])))


def test_a_relation_that_is_announced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was kept for a plan is not used for another one."""
    one = Shortcut(monkeypatch, ARTICLES[0])
    names = names_of(ARTICLES[0])
    other = Beside(plain, ARTICLES[0], here=relation(names[1], names[0], *names[2:]))
    data = encode(update(HERE, [b"1", b"2", b"3", V1], [b"1", b"4", b"3", V2]))
    assert one.takes(data)
    one.scanner.plans, one.decoder = other.scanner.plans, other.decoder
    assert one.takes(data)
    (_, _, _, first), (_, _, _, second) = one.commands()
    assert first != second


@given(st.lists(messages(), min_size=9, max_size=20))
def test_little_is_kept(drawn: Sequence[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "_KEPT_MAX", 2)
        both = Beside(plain, ARTICLES[0])
        for data in drawn:
            both.scans(data)
            assert len(both.scanner._shapes) <= 2
            assert len(both.scanner._templates) <= 2


def test_many_shapes() -> None:
    wide = article(*columns(12))
    here = relation(*names_of(wide))
    both = Beside(plain, wide, here=here)
    for mask in range(1 << 11):
        row = [b"%d" % mask if mask >> bit & 1 or not bit else None for bit in range(11)]
        assert both.scans(encode(insert(here, [*row, V1])))
    assert len(both.scanner._shapes) == 1024
