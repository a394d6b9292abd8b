"""Tests of scenario files as pytest items, without tracebacks, and of files played by tests."""

from __future__ import annotations

import shutil
from xml.etree import ElementTree

import pytest

from tests.cli.files import ACCOUNT
from tests.plugin.running import ROOT, Project

pytest_plugins = ["pytester"]

SCENARIO = ROOT / "scenarios" / "immediate" / "lost_update.twopc.yaml"

BOB_FIRST = """\
  - name: bob first
    steps: [a_begin, a_read, b_begin, b_read, b_write, a_write, b_end, a_end]
    expect: {sessions: {alice: committed}}  # wrongly
"""


@pytest.fixture
def files(project: Project) -> Project:
    """A project with a scenario that passes, and one that fails."""
    shutil.copy(SCENARIO, project.pytester.path / "good.twopc.yaml")
    text = SCENARIO.read_text(encoding="utf-8")
    right = next(line for line in text.splitlines() if "balance: 90" in line)
    wrong = text.replace(right, right.replace("90", "91") + "  # a comment", 1)
    (project.pytester.path / "wrong.twopc.yaml").write_text(wrong, encoding="utf-8")
    return project


def test_an_item_an_order(files: Project) -> None:
    """Each order is an item with a name and properties; a failure shows the file, not Python."""
    listed = files.run("--collect-only", "-q").stdout.str()
    assert "good.twopc.yaml::alice first" in listed
    assert "good.twopc.yaml::every order" in listed
    assert "good.twopc.yaml::twin of alice first: version_check off" in listed
    result = files.run("-k", "alice and first and not twin", "--junit-xml=junit.xml", "-rA")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*wrong.twopc.yaml: alice first*",
            "*wrong.twopc.yaml:*:*",
            "*balance: 91*",
            "*^*",
            "*expected {id: 1, balance: 91}, got {id: 1, balance: 90}*",
            "*because*",
            "*- twopc timeline -*",
            "*- twopc diagram -*",
            "*- twopc reproduce -*",
            "twopc run wrong.twopc.yaml --order 'alice first'",
        ]
    )
    shown = result.stdout.str()
    assert "Traceback" not in shown
    assert "def runtest" not in shown
    suite = ElementTree.parse(files.pytester.path / "junit.xml")
    properties = [p.get("name") for p in suite.iter("property")]
    assert properties.count("twopc_gids") == 2
    assert properties.count("twopc_seed") == 2


def test_files_are_found_wherever_they_are(files: Project) -> None:
    """Workers collect files, too, and no file is collected if `twopc_collect` is false."""
    result = files.run("good.twopc.yaml", "-q", "-n", "2", "-k", "alice")
    result.assert_outcomes(passed=3)
    assert files.run("-o", "twopc_collect=false").ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_file_that_is_wrong(project: Project) -> None:
    """Every mistake is reported with its position, as `twopc check` reports it."""
    (project.pytester.path / "bad.twopc.yaml").write_text("twopc: 1\nnam: x\n", encoding="utf-8")
    result = project.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["bad.twopc.yaml:2:1: error: unknown key 'nam', did you mean 'name'?*", "     2 | nam: x"]
    )
    assert "Traceback" not in result.stdout.str()


def test_accepting(files: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--twopc-accept` writes the outcome into the file, keeps comments, and is refused in CI."""
    path = files.pytester.path / "wrong.twopc.yaml"
    monkeypatch.setenv("CI", "true")
    options = ("wrong.twopc.yaml", "-k", "alice and first and not twin", "--twopc-accept")
    refused = files.run(*options)
    refused.assert_outcomes(failed=1)
    refused.stdout.fnmatch_lines(["*--twopc-accept is for a person at work, not for CI*"])
    monkeypatch.delenv("CI")
    files.run(*options).assert_outcomes(passed=1)
    text = path.read_text(encoding="utf-8")
    assert "balance: 91" not in text
    assert "# a comment" in text
    files.run("wrong.twopc.yaml", "-k", "alice and first and not twin").assert_outcomes(passed=1)


def test_accepting_several_orders_of_a_file(
    files: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accepting a second order of a file keeps what the first one has written."""
    monkeypatch.delenv("CI", raising=False)
    path = files.pytester.path / "both.twopc.yaml"
    path.write_text(ACCOUNT.replace("balance: 90", "balance: 91") + BOB_FIRST, encoding="utf-8")
    options = ("both.twopc.yaml", "-k", "not every")
    files.run(*options, "--twopc-accept").assert_outcomes(passed=2)
    files.run(*options).assert_outcomes(passed=2)
    text = path.read_text(encoding="utf-8")
    assert "balance: 90" in text
    assert "sessions: {alice: rolled back}" in text


def test_a_file_played_from_a_test(files: Project) -> None:
    """A test can examine the run of a file; a file that does not pass fails the test."""
    files.test(
        """
        import pytest

        @pytest.mark.twopc_scenario("good.twopc.yaml", orders="alice first")
        def test_good(twopc_run):
            refused = [each for each in twopc_run.records if each.kind == "rejected"]
            assert [each.session for each in refused] == ["bob"]
            assert [each.name for each in twopc_run.verdicts] == ["alice first"]

        @pytest.mark.twopc_scenario("wrong.twopc.yaml", orders="alice first")
        def test_wrong(twopc_run): pass

        @pytest.mark.twopc_scenario("good.twopc.yaml", orders="nobody first")
        def test_no_order(twopc_run): pass

        @pytest.mark.twopc_scenario("nowhere.twopc.yaml")
        def test_no_file(twopc_run): pass

        def test_no_mark(twopc_run): pass
        """
    )
    result = files.run("test_it.py")
    result.assert_outcomes(passed=1, errors=4)
    result.stdout.fnmatch_lines(
        [
            "*expected {id: 1, balance: 91}, got {id: 1, balance: 90}*",
            "*no order is called 'nobody first'*",
            "*nowhere.twopc.yaml*",
            "*twopc_run needs @pytest.mark.twopc_scenario*",
        ]
    )
    assert "During handling" not in result.stdout.str()


def test_a_sample_of_generated_orders(files: Project) -> None:
    """`--twopc-orders` draws a sample of generated orders, and the JUnit report has the seed."""
    result = files.run(
        "good.twopc.yaml", "-k", "every", "--twopc-orders=sample:2", "--twopc-seed=3",
        "--junit-xml=junit.xml",
    )  # fmt: skip
    result.assert_outcomes(passed=1)
    suite = ElementTree.parse(files.pytester.path / "junit.xml")
    properties = {p.get("name"): str(p.get("value")) for p in suite.iter("property")}
    assert properties["twopc_seed"] == "3"


def test_without_a_server(files: Project) -> None:
    """Files are played on the model without a server, and the command to reproduce says so."""
    result = files.run(
        "-k", "alice and first and not every", "--twopc-on", "model", "--twopc-pg", "/nowhere"
    )
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*expected {id: 1, balance: 91}, got {id: 1, balance: 90}*",
            "twopc run wrong.twopc.yaml --order 'alice first' --on model",
        ]
    )


def test_on_both_is_for_the_command_line(files: Project) -> None:
    result = files.run("good.twopc.yaml", "--twopc-on", "both")
    result.stdout.fnmatch_lines(["*it is postgres or model; 'twopc run --on both' compares them*"])


def test_orders_that_are_judged_together(project: Project) -> None:
    """A generated order fails if none of its cases can be played."""
    (project.pytester.path / "vain.twopc.yaml").write_text(
        ACCOUNT.partition("sessions:")[0]
        + """\
sessions:
  alice:
    node: pub
    steps: [a_begin: begin, a_write: {sql: "update account set balance = 1"}, a_end: commit]
  bob:
    node: pub
    steps: [b_write: {sql: "update account set balance = 2"}, b_more: {sql: "select 1"}]
orders: [{name: vain, generate: {before: ["a_write < b_write", "b_more < a_end"]}}]
""",
        encoding="utf-8",
    )
    result = project.run("--twopc-on", "model")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*vain: nothing could be played: bob cannot go on*"])
