"""Tests that isolation specs are parsed as isolationtester does, and that all errors are reported."""

from __future__ import annotations

import pytest

from twopc.sim.scenario.spec.grammar import parse
from twopc.sim.scenario.text import Document


def read(text: str):
    document = Document(path="some.spec", lines=text.splitlines())
    return parse(text, document), document


WHOLE = '''\
# what it is about
setup { CREATE TABLE t (a int); }
setup
{
  INSERT INTO t
  VALUES (1);
}
teardown { DROP TABLE t; }

session one
setup { BEGIN; }
# says what it sees
step look { SELECT a FROM t; }
step "change ""it""" { UPDATE t SET a = 2; }
teardown { SELECT 'gone'; }

session "two"
step s2a { DELETE FROM t; }
step s2b{}

# the first one
# of two
permutation look s2a(*) "change ""it"""(s2a, s2b notices 12) s2b
permutation s2b
'''


def test_a_whole_spec() -> None:
    spec, document = read(WHOLE)

    assert document.problems == []
    assert [block.text for block in spec.setup] == [
        "CREATE TABLE t (a int);",
        "INSERT INTO t\n  VALUES (1);",
    ]
    assert spec.teardown is not None
    assert spec.teardown.text == "DROP TABLE t;"
    one, two = spec.sessions
    assert one.setup is not None
    assert one.teardown is not None
    assert (one.setup.text, one.teardown.text) == ("BEGIN;", "SELECT 'gone';")
    assert (two.setup, two.teardown) == (None, None)
    assert list(spec.steps) == ["look", 'change "it"', "s2a", "s2b"]
    assert one.steps[0].comments == ("says what it sees",)
    assert spec.steps["s2b"][1].block.text == ""


def test_permutations_with_their_marks() -> None:
    first, second = read(WHOLE)[0].permutations

    assert first.comments == ("the first one", "of two")
    assert [launch.step for launch in first.launches] == ["look", "s2a", 'change "it"', "s2b"]
    marks = [
        [(blocker.kind, blocker.step, blocker.notices) for blocker in launch.blockers]
        for launch in first.launches
    ]
    assert marks == [
        [],
        [("once", "", 0)],
        [("other", "s2a", 0), ("notices", "s2b", 12)],
        [],
    ]
    assert [launch.step for launch in second.launches] == ["s2b"]


def test_every_value_has_its_place() -> None:
    spec, _ = read(WHOLE)

    change = spec.steps['change "it"'][1]
    assert (change.mark.line, change.mark.column) == (14, 6)
    assert (change.block.mark.line, change.block.mark.column) == (14, 24)
    block = spec.setup[1]
    assert (block.mark.line, block.mark.column) == (5, 3)
    launch = spec.permutations[0].launches[2]
    assert (launch.mark.line, launch.mark.column) == (23, 25)
    assert (launch.blockers[1].mark.line, launch.blockers[1].mark.column) == (23, 46)


def test_a_block_ends_at_the_first_brace() -> None:
    """A block ends at the first closing brace wherever it is, as in isolationtester."""
    _, document = read("session s step a { SELECT '{1}'; }")

    assert [each.mark.column for each in document.errors] == [31, 32, 34]


SESSION = "session s1\nstep a { SELECT 1; }\n"

WRONG = {
    "": ["1:1 a spec needs a session with a step"],
    "setup { x }\n": ["1:12 a spec needs a session with a step"],
    "setup\nsession s1\nstep a { x }": [
        "2:1 expected a block of SQL in braces after 'setup', not 'session'"
    ],
    "sesion s1\nstep a { SELECT 1; }\n": [
        "1:1 expected setup, teardown, session or permutation, not 'sesion', did you mean 'session'?"
    ],
    "session s1\n": ["1:11 expected a step of session 's1', not the end of the file"],
    "session step\nstep a { SELECT 1; }\n": [
        "1:9 expected a name for the session, not 'step'; put it in double quotes: \"step\""
    ],
    f"{SESSION}step a {{ SELECT 2; }}": ["3:6 step 'a' is already at line 2"],
    f"{SESSION}{SESSION}": [
        "3:9 session 's1' is already at line 1",
        "4:6 step 'a' is already at line 2",
    ],
    f"{SESSION}permutation b": ["3:13 no step 'b'"],
    f"{SESSION}step look {{ }}\npermutation loko a": ["4:13 no step 'loko', did you mean 'look'?"],
    f"{SESSION}permutation": ["3:12 expected a name of a step, not the end of the file"],
    f"{SESSION}permutation a(b": ["3:16 expected ',' or ')', not the end of the file"],
    f"{SESSION}permutation a(b)": [
        "3:15 'a' cannot be held back for 'b', which is not in this permutation (a)"
    ],
    f"{SESSION}step b {{ }}\npermutation a(b) b": [
        "4:15 'a' cannot be held back for 'b': both are of session 's1'"
    ],
    f"{SESSION}permutation a(a notices)": ["3:24 expected how many notices, not ')'"],
    f"{SESSION}setup {{ x }}": ["3:1 'setup' stands before the sessions and the teardown"],
    f"teardown {{ x }}\nteardown {{ y }}\n{SESSION}": [
        "2:1 there is one 'teardown'; this is another"
    ],
    f"{SESSION}permutation a\nsession s2\nstep b {{ }}": [
        "4:1 'session' stands before the permutations"
    ],
    "session s1\nstep a { SELECT 1;": [
        "2:8 this block of SQL has no closing brace",
        "2:19 expected the SQL of step 'a' in braces, not the end of the file",
    ],
    'session "s1\nstep a { SELECT 1; }': [
        "1:9 this name has no closing quote on its line",
        "2:1 expected a name for the session, not 'step'; put it in double quotes: \"step\"",
    ],
    "session s1\nstep a SELECT 1;\n": [
        "2:8 expected the SQL of step 'a' in braces, not 'SELECT'",
        "2:16 ';' means nothing here; SQL stands in braces",
    ],
}


@pytest.mark.parametrize("text", WRONG)
def test_every_mistake_has_its_place(text: str) -> None:
    _, document = read(text)

    told = [
        f"{each.mark.line}:{each.mark.column} {each.message}"
        for each in sorted(document.errors, key=lambda each: each.mark)
    ]
    assert told == WRONG[text]
