"""Writes the lessons' console blocks anew from what their commands print: ``python -m tests.lessons``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.lessons.played import ROOT, difference, lessons, played


def main(names: list[str]) -> int:
    """Regenerate the lessons named, or all; returns 0."""
    for path in lessons():
        if names and not any(name in path.name for name in names):
            continue
        before = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            inside = Path(folder) / "lesson"
            inside.mkdir()
            after = played(before, inside)
        kept = not difference(before, after)
        if not kept:
            path.write_text(after, encoding="utf-8")
        said = "as it was" if kept else "written"
        sys.stdout.write(f"{path.relative_to(ROOT)}: {said}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
