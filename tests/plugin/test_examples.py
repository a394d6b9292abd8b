"""Tests that the examples in the manual are those that run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.plugin.running import ROOT, Project

pytest_plugins = ["pytester"]

EXAMPLES = Path(__file__).parent / "examples"
ORM_EXAMPLES = Path(__file__).parent / "orm_examples"
MANUAL = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
EXAMPLE_FILES = [*sorted(EXAMPLES.glob("*.py")), *sorted(ORM_EXAMPLES.glob("*.py"))]
#: Examples that the manual shows; its other blocks are about the plugin itself.
SHOWN = [
    block
    for block in re.findall(r"```python\n(.*?)```", MANUAL, re.DOTALL)
    if re.search(
        r"crash_at|Till|Purchase|CarefulAccount|def test_a_stale|any_client=True|django_shop|twopc_async|with_name|twopc_merge",
        block,
    )
]


def test_they_run(project: Project) -> None:
    """The examples with psycopg and SQLAlchemy pass as a project, with warnings as errors."""
    for path in EXAMPLES.iterdir():
        if path.is_file():
            shutil.copy(path, project.pytester.path)
    result = project.run_apart("-q")
    result.assert_outcomes(passed=17)


def test_applications_as_they_are(project: Project) -> None:
    """SQLAlchemy, Alembic, asyncpg and Django write at a Subscriber, in tables of their own."""
    shutil.copytree(ORM_EXAMPLES, project.pytester.path, dirs_exist_ok=True)
    result = project.run_apart("-q", "-o", "asyncio_mode=auto")
    result.assert_outcomes(passed=7)


@pytest.mark.parametrize("block", SHOWN, ids=lambda block: block.split("\n")[0][:40])
def test_the_manual_shows_what_runs(block: str) -> None:
    """The manual shows the examples verbatim, except for comments to linters."""
    sources = "".join(path.read_text(encoding="utf-8") for path in EXAMPLE_FILES)
    assert block.strip() in re.sub(r"  # noqa.*", "", sources)


def test_every_setting_is_in_the_manual() -> None:
    """The manual lists each setting with all of its names."""
    from twopc.sim.pytest_plugin.config import OPTIONS
    from twopc.sim.settings import variable

    assert len(SHOWN) == 21
    for name in OPTIONS:
        shown = variable("timeout_ms" if name == "timeout" else name)
        row = next(line for line in MANUAL.splitlines() if line.startswith(f"| `--twopc-{name}"))
        assert f"`twopc_{name}`" in row
        assert f"`{shown}`" in row
