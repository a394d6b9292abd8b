"""Tests of the YAML 1.2 parser, and of its positions."""

from __future__ import annotations

import pytest

from twopc.sim.scenario import check
from twopc.sim.scenario.text import Map, Mark, Number, parse, suggestion

SOURCE = """\
twopc: 1  # a remark
on: [no, yes, 12:30:45, 2020-01-01, 08001, 22E01, 1.50, true, null, ~, "5"]
deep:
  - {a: 1, "b c": [x]}
"""


@pytest.fixture
def document():
    return parse(SOURCE, "file")


def test_values_are_of_yaml_1_2_and_numbers_are_as_written(document):
    assert document.root["on"] == [
        "no", "yes", "12:30:45", "2020-01-01", "08001", "22E01", "1.50", True, None, None, "5",
    ]  # fmt: skip
    numbers = [isinstance(each, Number) for each in document.root["on"]]
    assert numbers == [False] * 4 + [True] * 3 + [False] * 4
    assert not document.problems


@pytest.mark.parametrize(
    ("path", "key", "mark"),
    [
        ((), False, Mark(1, 1)),
        (("on",), True, Mark(2, 1)),
        (("on", 2), False, Mark(2, 15)),
        (("deep", 0), False, Mark(4, 5)),
        (("deep", 0, "b c"), True, Mark(4, 12)),
        (("deep", 0, "b c", 0), False, Mark(4, 20)),
        (("deep", 0, "missing", "b c"), False, Mark(4, 19)),  # missing keys are skipped
        (("deep", 7), False, Mark(4, 3)),
    ],
)
def test_marks(document, path, key, mark):
    assert document.mark(path, key=key) == mark


def test_folded_text_holds_what_is_written_and_nothing_else():
    document = parse("twopc: 1\nabout: >\n  one\n  two\n\n  three\n", "file")
    assert document.root["about"] == "one two\nthree\n"


def test_block_and_flow(document):
    assert isinstance(document.root["deep"][0], Map)
    assert document.root["deep"][0].flow
    assert not document.root.flow


def test_aliases_are_values():
    assert parse("a: &x [1]\nb: *x\n", "file").root["b"] == ["1"]


def test_report_is_sorted_and_says_a_thing_once(document):
    document.error(Mark(3, 1), "second")
    document.error(Mark(1, 8), "first")
    document.error(Mark(1, 8), "first")
    document.warn(Mark(4, 5), "third")
    assert [line for line in document.report().splitlines() if "file:" in line] == [
        "file:1:8: error: first",
        "file:3:1: error: second",
        "file:4:5: warning: third",
    ]
    assert document.excerpt(Mark(1, 8)) == [
        "     1 | twopc: 1  # a remark",
        "       |        ^",
    ]
    assert len(document.errors) == 2


def test_suggestion():
    assert suggestion("row", ["rows", "sql"]) == ", did you mean 'rows'?"
    assert suggestion("xyz", ["rows", "sql"]) == ""


WRITTEN = """\
about: >
  folded
  text

# a remark
tables:
  account: # another
    rows: [{id: 1}, {id: 2, n: "a, b"}]   # of rows
    more:
      - id: 2
        sql: |
          select 1

          from t
      # a last remark

    nothing:
again: &rows [1, 2]
same: *rows
"""


@pytest.mark.parametrize(
    ("path", "key", "text"),
    [
        (("about",), False, ">\n  folded\n  text"),
        (("tables", "account", "rows"), True, "rows"),
        (("tables", "account", "rows"), False, '[{id: 1}, {id: 2, n: "a, b"}]'),
        (("tables", "account", "rows", 1, "n"), False, '"a, b"'),
        (("tables", "account", "more", 0, "sql"), False, "|\n          select 1\n\n          from t"),
        (("tables", "account", "more"), False, "- id: 2\n        sql: |\n          select 1\n\n          from t"),
        (("tables", "account", "nothing"), False, ""),
        (("again", 1), False, "2"),
        (("about", 0), False, ">\n  folded\n  text"),  # a text instead of a list
        (("same",), False, None),
        (("same", 0), False, None),
        (("tables", "order"), False, None),
        (("tables", "account", "rows", 2), False, None),
    ],
)  # fmt: skip
def test_spans(path, key, text):
    document = parse(WRITTEN, "file")
    span = document.span(path, key=key)
    assert text == (None if span is None else document.text[slice(*span)])


def test_a_block_ends_with_its_last_line():
    document = parse(WRITTEN, "file")
    begin, end = document.span(("tables",))
    assert document.text[begin:end].startswith("account: # another")
    assert document.text[begin:end].endswith("    nothing:")


@pytest.mark.parametrize("levels", [101, 400])
def test_what_can_hardly_be_read_is_nested_too_deeply(levels):
    document, loaded = check.examine_text(f"twopc: 1\nname: {'[' * levels}{']' * levels}\n", "file")
    [problem] = document.problems
    assert (problem.mark.line, problem.message[:17], loaded) == (2, "nested too deeply", None)


def test_what_is_nested_too_deeply_is_told_at_its_deepest_place():
    document = parse(f"twopc: 1\nname: {'[' * 3000}\nabout: x\n", "file")
    [problem] = document.problems
    assert (problem.mark, problem.message[:17]) == (Mark(2, 3006), "nested too deeply")


def test_aliases_of_aliases_are_refused_before_they_are_written_out():
    lines = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    document = parse("\n".join(["twopc: 1", "a0: &a0 [x]", *lines]), "file")
    assert document.root is None
    [problem] = document.problems
    assert "over 500000 values" in problem.message
