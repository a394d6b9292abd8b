"""Measure the strength of the tests: draw mutants of the product, and report those that no test kills.

``python -m tests.mutants [--count N] [--seed S] [--paths PATH...]``. The draw is the same for the same seed and commit;
results are kept, and a second run with the same seed continues from them. It exits with 1 if a mutant has survived.

Of a line that tests execute in their own process, only those tests need to be run. Coverage records them (`pip install
pytest-cov`): ``SAMPLE_SEED=S python -m pytest -n 4 --cov=twopc --cov-context=test``, then ``--seed S --coverage
.coverage``.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.mutants.lines import Lines
from tests.mutants.operators import Mutant, mutants
from tests.mutants.reach import Reach
from tests.mutants.trial import Trials, worktree

ROOT = Path(__file__).parents[2]
PATHS = ("twopc", "publisher", "subscriber", "sim/model", "sim/scenario")


def draw(root: Path, paths: Sequence[str], seed: str, count: int) -> list[Mutant]:
    """Draw mutants of the files under these paths, each with the same probability."""
    listed = subprocess.run(
        ["git", "ls-files", *paths], cwd=root, check=True, capture_output=True, text=True
    )
    every = [
        mutant
        for path in listed.stdout.splitlines()
        if path.endswith((".py", ".sql")) and not (root / path).is_symlink()
        for mutant in mutants(root, path)
    ]
    random.Random(seed).shuffle(every)
    return every[:count]  # a longer draw begins with a shorter one


def commit_of(root: Path) -> str:
    """Return the abbreviated hash of the tested commit."""
    done = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=root, check=True, capture_output=True, text=True
    )  # fmt: skip
    return done.stdout.strip()


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Try the mutants, report each with its verdict, and print the results as JSON lines."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="so many mutants")
    parser.add_argument("--seed", default="", help="what is drawn; the commit if left out")
    parser.add_argument("--paths", nargs="+", default=PATHS, help="files or folders of the product")
    parser.add_argument("--limit", type=float, default=900, metavar="S", help="seconds a mutant")
    parser.add_argument("--coverage", type=Path, metavar="FILE", help="which tests run which lines")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="processes of pytest")
    options = parser.parse_args(arguments)
    commit = commit_of(root)
    seed = options.seed or commit
    kept = root / ".twopc" / "mutants" / f"{commit}-{seed}.jsonl"
    kept.parent.mkdir(parents=True, exist_ok=True)
    tried: dict[str, dict[str, Any]] = {}
    if kept.exists():
        lines = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]
        tried = {line["name"]: line for line in lines}
    drawn = draw(root, options.paths, seed, options.count)
    reach = Reach(root)
    lines = Lines(root, options.coverage) if options.coverage else None
    with worktree(root) as tree:
        trials = Trials(tree, limit_s=options.limit, jobs=options.jobs, seed=seed)
        for number, mutant in enumerate(drawn, 1):
            if mutant.name not in tried:
                runs_it = lines.tests(mutant.path, mutant.line) if lines else []
                trial = trials.run(mutant, [runs_it] if runs_it else reach.tests(mutant.path))
                tried[mutant.name] = {
                    "name": mutant.name, **asdict(trial), "diff": mutant.diff(root),
                }  # fmt: skip
                with kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(tried[mutant.name]) + "\n")
            tell(f"{number}/{len(drawn)}", tried[mutant.name])
    results = [tried[mutant.name] for mutant in drawn]
    counts = Counter(result["verdict"] for result in results)
    told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    sys.stderr.write(f"{len(results)} mutants of seed {seed}: {told}\n")
    for result in results:
        sys.stdout.write(json.dumps(result) + "\n")
    return int(counts["survived"] > 0)


def tell(number: str, result: dict[str, Any]) -> None:
    """Print one line for each result, and the diff of a survivor."""
    by = f" by {result['by']}" if result["by"] else ""
    sys.stderr.write(f"{number} {result['verdict']}{by}: {result['name']}, {result['seconds']} s\n")
    if result["verdict"] != "killed":
        sys.stderr.write(result["diff"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
