"""Tests with mutants of a small project: its tests kill all but one, of which they see nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.__main__ import main
from tests.mutants.lines import Lines
from tests.mutants.operators import mutants
from tests.mutants.reach import Reach

SOURCE = '''
"""Money."""
QUERY = "select id from account where balance > 0 and id = 1"
def fee(amount):
    """At least 1."""
    if amount < 100:
        return 1
    return amount // 100
'''
SMALL = """UNUSED = 7
def is_dear(amount):
    return amount > 100
"""
TEST = """
from twopc.money import fee
from twopc.small import is_dear
def test_fee(amount):
    assert (fee(amount), fee(500)) == (1, 5)
    assert (is_dear(100), is_dear(101)) == (False, True)
"""
CONFTEST = """
import pytest
@pytest.fixture
def amount():
    return 5
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with two modules and an SQL file, one test that reaches them, and one that does not."""
    files = {
        "twopc/__init__.py": "", "twopc/money.py": SOURCE, "twopc/small.py": SMALL,
        "twopc/sql/pay.sql": SQL,
        "tests/test_fee.py": TEST, "tests/test_else.py": "def test_else(): assert False\n",
        "tests/conftest.py": CONFTEST, "pytest.ini": "[pytest]\n",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *identity, *command], cwd=tmp_path, check=True)
    return tmp_path


SQL = """-- not null and true
select 'a < b' from t where exists (select from u where u.id = t.id) for update;
"""


def changes(project: Path, path: str) -> list[tuple[str, str]]:
    """Return the operator and the changed line of each mutant of a file."""
    return [
        (mutant.operator, mutant.source(project).decode().splitlines()[mutant.line - 1].strip())
        for mutant in mutants(project, path)
    ]


def test_what_is_changed(project: Path) -> None:
    """Nodes of the syntax tree are changed, and SQL outside comments and literals."""
    assert changes(project, "twopc/money.py") == [
        ("sql >", 'QUERY = "select id from account where balance >= 0 and id = 1"'),
        ("sql and", 'QUERY = "select id from account where balance > 0 or id = 1"'),
        ("sql =", 'QUERY = "select id from account where balance > 0 and id <> 1"'),
        ("condition", "if not (amount < 100):"),
        ("comparison", "if amount <= 100:"),
        ("constant", "if amount < 101:"),
        ("result", "return None"),
        ("constant", "return 2"),
        ("result", "return None"),
        ("arithmetic", "return amount * 100"),
        ("constant", "return amount // 101"),
    ]
    assert [operator for operator, _ in changes(project, "twopc/sql/pay.sql")] == [
        "sql =", "sql exists", "sql for update",
    ]  # fmt: skip


def test_who_can_see_it(project: Path) -> None:
    assert Reach(project).tests("twopc/money.py") == [["tests/test_fee.py"]]
    assert Reach(project).tests("tests/conftest.py") == [["tests/test_fee.py"]]
    assert Reach(project).tests("twopc/sql/pay.sql") == [["tests/test_fee.py"]]


def test_quick_tests_come_first(project: Path) -> None:
    """Tests named after the file come first, then quick ones; all are run."""
    for name in ("a", "b", "money"):
        (project / "tests" / f"test_{name}.py").write_text("import twopc.money\n", encoding="utf-8")
    slow = {f"tests/test_{name}.py::test": 9 for name in ("a", "money")}
    (project / "tests" / "durations.json").write_text(json.dumps(slow), encoding="utf-8")
    ((*names,),) = Reach(project).tests("twopc/money.py")
    assert names == [f"tests/test_{name}.py" for name in ("money", "b", "fee", "a")]


def test_tests_of_a_line(project: Path) -> None:
    """The tests of a line are those of the nearest line before it that any executes; imports belong to none."""
    (project / "twopc/small.py").write_text(
        f"{SMALL}def unused():\n    return 1\n", encoding="utf-8"
    )
    more = "from twopc.small import is_dear\ndef test_it(): assert is_dear(101)\n"
    (project / "tests/test_dear.py").write_text(more, encoding="utf-8")
    (project / ".coveragerc").write_text("[run]\nrelative_files = true\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "--cov=twopc", "--cov-context=test"]
    subprocess.run(
        [*command, "tests/test_fee.py", "tests/test_dear.py"],
        cwd=project, check=True, capture_output=True,
    )  # fmt: skip
    lines = Lines(project, project / ".coverage")
    dear, fee = "tests/test_dear.py::test_it", "tests/test_fee.py::test_fee"
    assert [lines.tests("twopc/small.py", line) for line in (1, 3, 5)] == [
        [],
        [dear, fee],
        [dear, fee],
    ]
    assert lines.tests("twopc/money.py", 7) == [fee]
    assert lines.tests("twopc/sql/pay.sql", 2) == []


def test_some_are_killed_and_one_survives(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tried mutants are not tried again; the checkout is removed, and the tree unchanged."""
    arguments = ["--seed", "1", "--paths", "twopc/small.py", "--count"]
    assert main([*arguments, "9"], project) == 1
    first = capsys.readouterr()
    results = [json.loads(line) for line in first.out.splitlines()]
    verdicts = {result["verdict"]: result for result in results}
    assert sorted(result["verdict"] for result in results) == [*["killed"] * 3, "survived"]
    assert verdicts["killed"]["by"] == "tests/test_fee.py::test_fee"
    assert verdicts["survived"]["diff"].endswith(
        "-UNUSED = 7\n+UNUSED = 8\n def is_dear(amount):\n"
    )
    assert verdicts["survived"]["diff"] in first.err
    main([*arguments, "2"], project)
    assert capsys.readouterr().out.splitlines() == first.out.splitlines()[:2]
    shown = subprocess.run(
        ["git", "status", "--short"], cwd=project, capture_output=True, text=True, check=True
    )
    assert "M " not in shown.stdout
