"""Write the lessons' pages, from their sources and the output of their commands.

Run ``python -m tests.lessons``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.lessons.played import PAGES, ROOT, difference, page_of, played
from twopc.sim.explore.lessons.source import lessons


def main(names: list[str]) -> int:
    """Write the pages of the named lessons, or of all of them; return 0."""
    for lesson in lessons():
        if names and not any(name in lesson.name for name in names):
            continue
        path = PAGES / f"{lesson.name}.md"
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        with tempfile.TemporaryDirectory() as folder:
            inside = Path(folder) / "lesson"
            inside.mkdir()
            after = played(page_of(lesson), inside)
        kept = bool(before) and not difference(before, after)
        if not kept:
            path.write_text(after, encoding="utf-8")
        said = "as it was" if kept else "written"
        sys.stdout.write(f"{path.relative_to(ROOT)}: {said}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
