"""Tests of manifests: a written manifest is read back, and a contradictory one is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spark.archive.made import ARTICLE, PUBLISHER, facts
from twopc.sim.spark.archive.compact import plan
from twopc.sim.spark.archive.manifest import (
    DECODED,
    BaseTable,
    File,
    Manifest,
    RecordedHistory,
    Segment,
)
from twopc.sim.spark.errors import ArchiveError, GapError

Document = dict[str, Any]


def segment(first: int, last: int, transactions: int, commands: int) -> Segment:
    """Return a segment with a file for each table that has rows."""
    files = {
        table: (
            File(path=f"{table}-{last}", rows=rows, bytes=9, sha256="0", first=first, last=last),
        )
        for table, rows in (
            ("commands", commands),
            ("transactions", transactions),
            (DECODED, commands),
        )
        if rows
    }
    return Segment(
        first=first,
        last=last,
        transactions=transactions,
        commands=commands,
        at="2026-01-01T00:00:00Z",
        how="append",
        files=files,
        decoded=commands,
    )


def manifest(*sizes: tuple[int, int, int], first: int = 0) -> Manifest:
    """Return a manifest with segments of these lengths, transactions and commands."""
    made, end = [], first
    for length, transactions, commands in sizes:
        made.append(segment(end + 1, end + length, transactions, commands))
        end += length
    return Manifest(publisher=PUBLISHER, first=first, created="now", segments=tuple(made))


SIZES = st.lists(
    st.tuples(st.integers(1, 1 << 56), st.integers(0, 50), st.integers(0, 500)), max_size=20
)


@given(SIZES, st.integers(0, 1 << 60))
def test_round_trip(sizes: list[tuple[int, int, int]], first: int) -> None:
    """Sequence numbers up to 2^63 survive JSON; position and counts follow from the segments."""
    made = manifest(*sizes, first=first).next(
        base=(BaseTable(article_id=1, shape=1, snapshot="1:1:", seqno=5, rows=0, files=()),),
        histories=(RecordedHistory(run="r", files=(), records=0, sha256=""),),
        notes=({"at": "now", "what": "begun"},),
    )
    made = made.knows(facts())
    read = Manifest.parse(made.text(), "here")
    assert read == made
    assert read.position == first + sum(length for length, _, _ in sizes)


@given(SIZES, st.integers(1, 1000))
def test_compaction_plan(sizes: list[tuple[int, int, int]], commands: int) -> None:
    """The slices are disjoint, ascending, of at least two segments, and not larger than requested."""
    segments = manifest(*sizes).segments
    end = 0
    for begin, stop in plan(segments, commands):
        assert end <= begin < stop - 1 < len(segments)
        assert sum(each.commands for each in segments[begin:stop]) <= commands
        end = stop


def test_what_is_gone_stays_known() -> None:
    """A dropped article, its originator and its subscription stay in the manifest, as old commands name them."""
    subscription = {"article_id": 1, "subscriber": "north", "status": 2}
    made = manifest().knows(facts(subscriptions=(subscription,)))
    wider = {**ARTICLE, "shape": 2, "first_seqno": 9}
    made = made.knows(facts(articles=(wider,), originators=(), subscriptions=()))
    assert [each["shape"] for each in made.articles] == [1, 2]
    assert [each["srvname"] for each in made.originators] == ["north"]
    assert [each["status"] for each in made.subscriptions] == [0]


def test_what_an_earlier_version_has_written_since() -> None:
    """A manifest that an earlier version has rewritten is read.

    It has kept the files of tables that it does not know, and omitted unknown fields of segments.
    """
    made = manifest((10, 2, 4), (10, 1, 3))
    found = json.loads(made.text())
    for each in found["segments"]:
        del each["decoded"]
    assert Manifest.parse(json.dumps(found), "here") == made


def _gap(found: Document) -> None:
    del found["segments"][1]


def _swapped(found: Document) -> None:
    found["segments"].reverse()


def _twice(found: Document) -> None:
    second = found["segments"][1]
    second["files"]["commands"] *= 2
    second["commands"] *= 2
    found["counts"]["commands"] += 4


def _decoded_twice(found: Document) -> None:
    second = found["segments"][1]
    second["files"][DECODED] *= 2
    second["decoded"] *= 2


def _lost(found: Document) -> None:
    found["segments"][0]["files"]["commands"] = []


def _outside(found: Document) -> None:
    found["segments"][0]["files"]["commands"][0]["last"] = 11


def _undecoded(found: Document) -> None:
    found["segments"][0]["files"][DECODED] = []


def _null_format(found: Document) -> None:
    found["articles"][0]["upd"] = None


def _strange_key(found: Document) -> None:
    found["articles"][0]["key"] = [2]


def _counts(found: Document) -> None:
    found["counts"]["transactions"] += 1


def _version(found: Document) -> None:
    found["twopc_archive"] = 2


def _no_base(found: Document) -> None:
    del found["base"]


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (
            _gap,
            GapError,
            r"numbers 0/B to 0/14 are missing between segments 1 and 2: the manifest was",
        ),
        (_swapped, GapError, r"numbers 0/1 to 0/14 are missing before segment 1"),
        (_twice, ArchiveError, r"0/B to 0/14 is in two files: commands-20 and commands-20"),
        (
            _decoded_twice,
            ArchiveError,
            rf"0/B to 0/14 is in two files: {DECODED}-20 and {DECODED}-20",
        ),
        (_lost, ArchiveError, r"segment 1 \(0/1 to 0/A\) has 4 commands, and its files 0"),
        (_undecoded, ArchiveError, rf"segment 1 \(0/1 to 0/A\) has 4 {DECODED}, and its files 0"),
        (_outside, ArchiveError, r"commands-10 has 0/1 to 0/B, outside of its segment"),
        (
            _counts,
            ArchiveError,
            r"position and counts are not those of its segments, which have 6 tr",
        ),
        (_null_format, ArchiveError, r"shape 1 of article 1 has no format of upd"),
        (_strange_key, ArchiveError, r"shape 1 of article 1 has a column twice, or a key that is"),
        (_version, ArchiveError, r"here: version 2; this program reads 1"),
        (_no_base, ArchiveError, r"here: not a manifest of an archive: no field 'base'"),
    ],
)
def test_contradictions(
    spoil: Callable[[Document], None], error: type[ArchiveError], message: str
) -> None:
    """Each contradiction is refused, with its place."""
    made = manifest((10, 2, 4), (10, 2, 4), (10, 2, 4)).knows(facts())
    found = json.loads(made.text())
    found["what later versions add"] = 1
    spoil(found)
    with pytest.raises(error, match=message):
        Manifest.parse(json.dumps(found), "here")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"twopc_archive": 1}'])
def test_no_manifest(text: str, tmp_path: Path) -> None:
    """Other files are not taken for manifests."""
    with pytest.raises(
        ArchiveError, match=re.escape(f"{tmp_path}: not a manifest of an archive: ")
    ):
        Manifest.parse(text, str(tmp_path))
