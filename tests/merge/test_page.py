"""The worked examples of the pages on merge replication print what the pages show."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["merge.md", "merge_conflicts.md", "merge_partitions.md"])
def test_the_first_example(name: str) -> None:
    """The example prints what the page shows, in a separate process, as a reader would run it."""
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    assert found is not None
    done = subprocess.run(
        [sys.executable, "-c", found[1]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == (found[2], 0), done.stderr
