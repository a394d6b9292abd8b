"""Tests that a spec becomes a scenario that does what isolationtester would do, and an equivalent file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from twopc.errors import ScenarioError
from twopc.sim.scenario.check import from_document, parse
from twopc.sim.scenario.model import OrderItem
from twopc.sim.scenario.spec import convert
from twopc.sim.scenario.spec.layout import scalar

SPECS = sorted((Path(__file__).parent / "specs").glob("*.spec"))


def scenario(name: str):
    text = (Path(__file__).parent / "specs" / f"{name}.spec").read_text(encoding="utf-8")
    return from_document(convert.document(text, f"{name}.spec")).scenario


def items(order) -> list[str]:
    def said(item: OrderItem) -> str:
        return item.step or f"wait: {item.wait}"

    return [said(item) for item in order.steps]


def squeezed(value):
    """Replace white space, which a file may change, by single spaces."""
    if isinstance(value, dict):
        return {key: squeezed(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [squeezed(each) for each in value]
    return re.sub(r"\s+", " ", value) if isinstance(value, str) else value


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_the_file_says_what_the_spec_says(path: Path) -> None:
    """The converted spec and the file written from it are the same valid scenario."""
    text = path.read_text(encoding="utf-8")
    straight = from_document(convert.document(text, str(path)))
    written = parse(convert.yaml(text, str(path)), "written.twopc.yaml")

    assert straight.document.problems == []
    assert written.document.problems == []
    assert squeezed(written.scenario.model_dump()) == squeezed(straight.scenario.model_dump())


def test_sessions_are_plain_ones_at_the_publisher() -> None:
    made = scenario("session_setup")

    assert made.topology.nodes == ("pub",)
    assert [(each.node, each.plain) for each in made.sessions.values()] == [("pub", True)] * 2
    assert made.sessions["one"].setup == ("BEGIN; INSERT INTO visit VALUES ('one');",)
    assert made.sessions["one"].teardown == ("INSERT INTO visit VALUES ('one has left');",)
    assert made.setup == ("CREATE TABLE visit (who text);",)
    assert made.expect.otherwise == "any"


def test_sessions_that_are_asked_for_by_name_have_isolationtesters() -> None:
    """If a spec refers to `application_name`, its sessions set isolationtester's, with any file name quoted."""
    spec = """session one
step look { SELECT count(*) FROM pg_stat_activity WHERE application_name ~ 'isolation/'; }"""
    made = from_document(convert.document(spec, "it's.spec")).scenario
    assert made.sessions["one"].setup == ("set application_name = 'isolation/it''s/one'",)


def test_without_a_permutation_every_order_is_played() -> None:
    (order,) = scenario("every").orders

    assert order.generate is not None
    assert (order.generate.limit, order.generate.reduce) == (None, "none")
    assert order.steps == ()


def test_a_step_that_is_played_again_is_another_step() -> None:
    made = scenario("repeated")

    assert [items(order) for order in made.orders] == [
        ["look", "add", "look_2", "double", "look_3"],
        ["add", "double", "add_2", "look_4"],
        ["double", "look"],
    ]
    scripts = {name: step.script for name, (_, step) in made.steps.items()}
    assert scripts["look"] == scripts["look_4"] == "SELECT a FROM t;"


def test_steps_stand_as_they_are_played_where_that_takes_fewer_copies() -> None:
    text = "session s step c { SELECT 3; } step a { SELECT 1; } step b { SELECT 2; } permutation a b a c"
    made = from_document(convert.document(text, "some.spec"))

    assert list(made.scenario.steps) == ["a", "b", "a_2", "c"]
    assert made.document.problems == []


def test_a_step_that_nobody_plays_is_warned_of() -> None:
    text = "session s\nstep a { SELECT 1; }\nstep b { SELECT 2; }\npermutation a"
    made = from_document(convert.document(text, "some.spec"))

    assert [(each.severity, each.message, each.mark.line) for each in made.document.problems] == [
        ("warning", "step 'b' is in no order", 3)
    ]


def test_a_star_says_nothing_that_the_runner_does_not_see() -> None:
    assert items(scenario("star").orders[0]) == ["s1w", "s2w", "s1c", "s2look"]


def test_a_session_goes_on_when_what_it_makes_way_for_is_done() -> None:
    assert items(scenario("other").orders[0]) == [
        "s1w",
        "s2w",
        "s3w",
        "s1c",
        "wait: s3w done",
        "s2look",
    ]


def test_notices_are_waited_for_before_the_session_goes_on() -> None:
    assert items(scenario("notices").orders[0]) == [
        "s2begin",
        "s1w",
        "wait: s1w notices 2",
        "s2look",
        "s2end",
    ]


def test_it_is_played_by_isolationtesters_rules_and_without_a_limit_of_ours() -> None:
    made = scenario("lock_timeout")

    assert made.runner == "isolationtester"
    assert made.topology.timeouts.lock_ms == 0
    assert items(made.orders[0]) == ["s1w", "s2w", "s2c", "s1c", "s3look"]


def test_names_are_made_of_what_names_may_have() -> None:
    made = scenario("names")

    assert list(made.sessions) == ["the_first", "Été"]
    assert list(made.steps) == ["read_it", "say_when", "step", "lit_1"]


def test_names_stay_different() -> None:
    text = (
        'session "a b" step "x y" { SELECT 1; } session a_b step x_y { SELECT 2; } step "x-y" { }'
    )
    made = from_document(convert.document(text, "some.spec")).scenario

    assert list(made.sessions) == ["a_b_2", "a_b"]
    assert list(made.steps) == ["x_y_2", "x_y", "x-y"]


def test_comments_above_a_permutation_are_what_it_is_about() -> None:
    text = "session s step a { SELECT 1; }\n\n# one\n# after\n\n# the only\n# one\npermutation a\n"
    made = from_document(convert.document(text, "some.spec")).scenario

    assert made.orders[0].about == "the only one"


def test_mistakes_point_into_the_spec() -> None:
    with pytest.raises(ScenarioError) as caught:
        convert.yaml("session s\nstep a { SELECT 1; }\npermutation a b\n", "some.spec")

    assert str(caught.value).splitlines() == [
        "some.spec:3:15: error: no step 'b'",
        "     3 | permutation a b",
        "       |               ^",
    ]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain words", "plain words"),
        ("yes", '"yes"'),
        ("12", '"12"'),
        ("", '""'),
        ("a: b", '"a: b"'),
        ('say "it"', "'say \"it\"'"),
        ("it's", '"it\'s"'),
        ("bell\x07", '"bell\\u0007"'),
        (None, "null"),
        (True, "true"),
    ],
)
def test_scalars_are_read_back(value, written) -> None:
    """Strings that YAML would read as other values are written in quotes."""
    assert scalar(value) == written


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1;\n\n  SELECT 2;",
        "SELECT 'a\n   b';",
        "DO $$\n  begin\n    null;\n  end $$;",
        "SELECT 1;\t-- tab\n\tSELECT 2;",
        "SELECT '# not a comment: \\ {';",
        "SELECT '" + "long  " * 40 + "';",
        "select " + ", ".join(f"column_{n}" for n in range(40)),
        "x\r\ny",
    ],
)
def test_sql_comes_through(sql: str) -> None:
    text = "session s step a {" + sql.replace("}", "") + "}"
    made = parse(convert.yaml(text, "some.spec"), "written.twopc.yaml").scenario
    straight = from_document(convert.document(text, "some.spec")).scenario

    step, wanted = made.steps["a"][1].script, straight.steps["a"][1].script
    assert re.sub(r"\s+", " ", step) == re.sub(r"\s+", " ", wanted)
    if "'" in sql or "$$" in sql:
        assert step == wanted
