"""The source of a lesson: errors with their places, answers from runs only, and its JSON."""

from __future__ import annotations

import json
import re

import pytest

from twopc.errors import ScenarioError
from twopc.sim.explore.lessons.answers import answer
from twopc.sim.explore.lessons.parts import LessonQuestion
from twopc.sim.explore.lessons.source import lesson, parse
from twopc.sim.explore.lessons.wire import answer_json, lessons_json

HEAD = "---\ntitle: One\nminutes: 5\nteaches: That.\nneeds: Nothing.\n---\n\n"
FILE = """<!-- file: a.twopc.yaml -->
```yaml
twopc: 1
name: a
topology: {publisher: pub, subscribers: [sub1]}
tables: {account: {columns: {id: int primary key, balance: int}, rows: [{id: 1, balance: 100}]}}
sessions:
  alice: {node: sub1, steps: [a_write: {sql: "update account set balance = 90 where id = 1"}]}
  office: {node: pub, steps: [o_begin: begin, o_write: {sql: "update account set balance = 95 where id = 1"}, o_end: commit]}
orders:
  - {name: one, steps: [o_write, a_write]}
  - {name: every, generate: all}
```

"""
#: The first line of a question's block.
AT = (HEAD + FILE).count("\n") + 3


def source(question: str) -> str:
    """Return a lesson with one file and one question about its order."""
    return f"{HEAD}{FILE}<!-- question -->\n```yaml\nask: What?\norder: one\n{question}\n```\n"


def only(text: str) -> tuple[LessonQuestion, ...]:
    """Return the questions of a lesson's source."""
    return parse(text, "01_one.md").questions


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("# No head\n", "01_one.md:1:1: error: a lesson begins with '---', title, minutes"),
        (HEAD.replace("minutes: 5", "minutes: 11"), "01_one.md:3:10: error: a lesson takes 1 to 10 whole minutes"),
        (HEAD.replace("title", "titel"), "01_one.md:2:1: error: there is no key 'titel' here, did you mean 'title'?"),
        (HEAD.replace("5", "["), "01_one.md:3:10: error: "),
        (HEAD + "<b>\n", "01_one.md:8:1: error: HTML is a mark"),
        (HEAD + "<!-- file: a -->\n\nText.\n", "01_one.md:8:1: error: no block follows this 'file'"),
        (HEAD + "<!-- file -->\n```\nx\n```\n", "01_one.md:8:1: error: 'file' needs a name"),
        (HEAD + "```console\n$ ls\na b\n```\n", "01_one.md:10:1: error: a console block has commands"),
        (HEAD + "<!-- change: b -->\n```diff\n-x\n+y\n```\n", "01_one.md:8:1: error: no file 'b' was saved"),
        (HEAD + FILE + "<!-- change: a.twopc.yaml -->\n```diff\n-name: b\n+name: c\n```\n",
         f"01_one.md:{AT}:1: error: a.twopc.yaml has these lines 0 times"),
        (HEAD + "<details><summary>Answer</summary>\n\nText.\n", "01_one.md:10:1: error: '</details>' is missing"),
        (source("choices: {one: {steps: {a_write: ok}}}"), f"01_one.md:{AT + 2}:10: error: 'choices' is a mapping of two"),
        (source("choices: {one: yes, two: {committed: 1}}"), f"01_one.md:{AT + 2}:16: error: what is expected then"),
        (source("value: {step: a_write, columns: x}"), f"01_one.md:{AT + 2}:24: error: there is no key 'columns' here"),
        (source("why: because"), f"01_one.md:{AT}:1: error: a question has either 'choices' or 'value'"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_place(text: str, complaint: str) -> None:
    with pytest.raises(ScenarioError, match=re.escape(complaint)):
        parse(text, "01_one.md")


@pytest.mark.parametrize(
    ("question", "complaint"),
    [
        ("choices:\n  one: {steps: {b_write: ok}}\n  two: {steps: {a_write: ok}}",
         f"01_one.md:{AT + 3}:17: error: no step 'b_write'"),
        ("choices:\n  one: {steps: {a_write: ok}}\n  two: {committed: 0}",
         f"01_one.md:{AT}:1: error: no choice is right; a_write: expected ok, got rejected"),
        ("choices:\n  one: {committed: 1}\n  two: {steps: {o_write: ok}}",
         f"01_one.md:{AT}:1: error: several choices are right: one and two"),
        ("value: {step: a_write, column: x}", f"01_one.md:{AT}:1: error: the run has 0 such rows"),
    ],
)  # fmt: skip
def test_a_question_without_one_answer_is_refused(question: str, complaint: str) -> None:
    text = source(question)
    (asked,) = only(text)
    with pytest.raises(ScenarioError, match=re.escape(complaint)):
        answer(parse(text, "01_one.md"), asked)


def test_a_file_that_cannot_be_played_is_told_with_both_places() -> None:
    text = source("value: {step: a_write, column: x}").replace("node: sub1", "node: sub9")
    (asked,) = only(text)
    places = (
        rf"^01_one\.md:{AT}:1: error: a\.twopc\.yaml cannot be played:\n"
        r"(?s:.*)^a\.twopc\.yaml:6:17: error: session 'alice': no node 'sub9'"
    )
    with pytest.raises(ScenarioError, match=re.compile(places, re.MULTILINE)):
        answer(parse(text, "01_one.md"), asked)


def test_an_order_that_is_not_there_is_refused() -> None:
    text = source("value: {step: a_write, column: x}").replace("order: one", "order: two")
    (asked,) = only(text)
    with pytest.raises(ScenarioError, match=rf":{AT}:1: error: a\.twopc\.yaml has no order 'two'"):
        answer(parse(text, "01_one.md"), asked)


def test_the_run_says_which_choice_is_right_and_why() -> None:
    """The run decides which choice is right: without the Publisher's session it is another one."""
    text = source(
        "choices:\n  yes: {steps: {a_write: ok}}\n  no: {steps: {a_write: {rejected: version_mismatch}}}"
    )
    (asked,) = only(text)
    refused = answer(parse(text, "01_one.md"), asked)

    assert refused.right == 1
    assert refused.choices[0].message == "a_write: expected ok, got rejected: version_mismatch"
    assert refused.because.startswith("this copy of account id=1 was v1")

    alone = text.replace("order: one", "order: [a_write]")
    assert answer(parse(alone, "01_one.md"), only(alone)[0]).right == 0


def test_a_choice_that_says_nothing_of_a_wait_means_that_there_is_none() -> None:
    """A choice without a wait excludes waits if another choice has one; otherwise it does not."""
    waits = (
        "choices:\n"
        "  at once: {steps: {a_write: {rejected: version_mismatch}}}\n"
        "  waits: {steps: {a_write: {blocked_by: o_write, then: {rejected: version_mismatch}}}}"
    )
    text = source(waits)
    open_one = text.replace("order: one", "order: [o_begin, o_write, a_write, o_end]")

    assert answer(parse(text, "01_one.md"), only(text)[0]).right == 0
    assert answer(parse(open_one, "01_one.md"), only(open_one)[0]).right == 1


def test_of_many_orders_something_may_be_so_in_some() -> None:
    """Of many orders, a choice that holds in some is not one that holds in all."""
    text = source(
        "choices:\n"
        "  always one: {committed: 1}\n"
        "  always: {sometimes: {steps: {o_write: ok}}}\n"
        "  sometimes: {sometimes: {committed: 1}}"
    ).replace("order: one", "order: every")
    assert answer(parse(text, "01_one.md"), only(text)[0]).right == 2


def kinds(parts: object) -> list[str]:
    """Return the kinds of a lesson's parts, in JSON."""
    return [each["kind"] for each in parts]  # type: ignore[attr-defined] # it is of JSON


def test_what_the_page_gets_has_no_answer() -> None:
    """The JSON of lessons contains no answer, and nothing that a browser could run or fetch.

    Each question has its answer when it is asked.
    """
    listing = lessons_json()
    text = json.dumps(listing)

    assert [each["number"] for each in listing] == list(range(1, len(listing) + 1))
    assert '"holds"' not in text and '"because"' not in text and '"right"' not in text
    assert not re.search(r"<(script|style|img|iframe)|https?:|href=\\\"(?!#lesson=)", text)
    first = listing[0]["parts"]
    asked = [each for each in first if each["kind"] == "question"]
    assert [each["number"] for each in asked] == list(range(1, len(lesson(1).questions) + 1))
    assert {"text", "file", "change", "run", "exercise"} <= set(kinds(first))
    played = [each for each in first if each["kind"] == "run"]
    assert all("name: account" in each["text"] for each in played)
    result = answer_json(1, 1)
    assert result["choices"][result["right"] or 0]["holds"]
    assert result["because"]


def test_no_question_and_no_lesson_of_that_number() -> None:
    with pytest.raises(ScenarioError, match="there is no lesson 99: there are 1 to"):
        answer_json(99, 1)
    with pytest.raises(ScenarioError, match="lesson 1 has no question 99"):
        answer_json(1, 99)
