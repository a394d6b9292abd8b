"""Tests that the same seed gives the same bytes, also in processes with different hash seeds."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCENARIOS = (
    "scenarios/immediate/lost_update.twopc.yaml",
    "scenarios/immediate/cross_node_deadlock.twopc.yaml",
    "scenarios/immediate/any_client.twopc.yaml",
    "tests/faults/data/dies-decided.twopc.yaml",
    "tests/workload/small/tpcb.yaml",
)


def in_a_process(hash_seed: int, *arguments: str, cwd: Path = ROOT) -> str:
    """Run a module in a process with a hash seed, and return what it prints."""
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=cwd, env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_a_mix_of_transactions() -> None:
    """A run with drawn message delays is the same in each process, and differs for another seed."""
    first, second = (in_a_process(one, "tests.model.deterministic", "7") for one in (1, 2))
    assert first.count("\n") == 600
    assert first == second
    assert first != in_a_process(1, "tests.model.deterministic", "8")


def test_scenarios(tmp_path: Path) -> None:
    """Histories with waits, deadlocks, faults and a workload are the same in each process."""
    for hash_seed in (1, 2):
        out = str(tmp_path / str(hash_seed))
        in_a_process(
            hash_seed, "twopc.sim", "run", *SCENARIOS, "--on", "model", "--seed", "5", "--out", out
        )
    first, second = (sorted((tmp_path / one).glob("*/latest/history.jsonl")) for one in ("1", "2"))
    assert len(first) == len(SCENARIOS)
    for one, other in zip(first, second, strict=True):
        lines = (path.read_text(encoding="utf-8").splitlines() for path in (one, other))
        for line, same in zip(*lines, strict=True):
            assert line == same


# -- sets ------------------------------------------------------------------------------------------

#: Functions whose results do not depend on the order of a set.
INDIFFERENT = {"sorted", "len", "sum", "min", "max", "any", "all", "set", "frozenset", "bool"}


#: Functions whose results have the order of their argument.
IN_ORDER = {"list", "tuple", "iter", "next", "enumerate"}


def _is_set(node: ast.AST) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("set", "frozenset")
    return False


def _is_set_type(node: ast.AST | None) -> bool:
    return node is not None and ast.unparse(node).partition("[")[0] in ("set", "frozenset")


def _sets(tree: ast.AST) -> set[str]:
    """Return names, and attributes of `self`, that are annotated as sets or assigned a set."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and _is_set_type(node.annotation):
            found.add(ast.unparse(node.target))
        elif isinstance(node, ast.arg) and _is_set_type(node.annotation):
            found.add(node.arg)
        elif isinstance(node, ast.Assign) and _is_set(node.value):
            found.update(ast.unparse(target) for target in node.targets)
    return found


def looked_at_in_order(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that iterate over a set."""
    attributes = {name for name in _sets(tree) if "." in name}
    inside = (ast.FunctionDef, ast.ClassDef)
    outside = ast.Module(
        body=[one for one in tree.body if not isinstance(one, inside)], type_ignores=[]
    )
    known = attributes | _sets(outside)
    yield from _gone_through(outside, known)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield from _gone_through(node, known | _sets(node))


def _gone_through(tree: ast.AST, sets: set[str]) -> Iterator[int]:
    fine: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in INDIFFERENT:
                for argument in node.args:
                    fine.add(argument)
                    fine.update(getattr(argument, "generators", ()))
        elif isinstance(node, ast.SetComp | ast.DictComp):
            fine.update(node.generators)
    for node in ast.walk(tree):
        through: ast.AST | None = None
        if isinstance(node, ast.For) or (isinstance(node, ast.comprehension) and node not in fine):
            through = node.iter
        elif isinstance(node, ast.Starred):
            through = node.value
        elif isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in IN_ORDER:
            through = node.args[0]
        if through is not None and (_is_set(through) or ast.unparse(through) in sets):
            yield through.lineno  # type: ignore[attr-defined] # expressions have one


@pytest.mark.parametrize("path", sorted((ROOT / "sim/model").rglob("*.py")), ids=lambda p: p.stem)
def test_nothing_goes_through_a_set(path: Path) -> None:
    """The model never iterates over a set, whose order differs between processes."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [
        f"{path.name}:{line}: {lines[line - 1].strip()}"
        for line in looked_at_in_order(ast.parse("\n".join(lines)))
        if "any order" not in lines[line - 1]
    ]
    assert not found


@pytest.mark.parametrize(
    "text",
    [
        "for one in set(x): pass", "for one in {1, 2}: pass", "a = [b for b in {c for c in d}]",
        "x: set[int] = y\nfor one in x: pass", "self.x = set()\nlist(self.x)", "x = {1}\n[*x]",
    ],
)  # fmt: skip
def test_the_rule_finds_it(text: str) -> None:
    assert [*looked_at_in_order(ast.parse(text))]


@pytest.mark.parametrize("text", ["sorted({1, 2})", "any(a for a in {1})", "x = {1: 2}\n[*x]"])
def test_the_rule_leaves_alone(text: str) -> None:
    assert not [*looked_at_in_order(ast.parse(text))]
