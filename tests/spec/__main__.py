"""Play a folder of PostgreSQL's own specs, and compare each with its expected output.

``python -m tests.spec DIR [--only NAME…]``: DIR has the folders ``specs`` and ``expected``, as ``src/test/isolation``
of PostgreSQL's source. It prints a line for each spec, the first difference of each permutation that differs, and the
totals. It exits with 1 unless all agree.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from twopc import log
from twopc.errors import ScenarioError
from twopc.server import EmbeddedServer
from twopc.sim.scenario.spec.expected_output import SpecAgreement, agreement
from twopc.sim.scenario.spec.play import SETTINGS, play


async def compared(path: Path, expected: Path, server: EmbeddedServer) -> SpecAgreement | str:
    """Compare a spec with its expected output; return the error if it cannot be played."""
    try:
        text = path.read_text(encoding="utf-8")  # noqa: ASYNC240 -- nothing else runs
        return agreement(expected, await play(text, str(path), server))
    except ScenarioError as error:
        return str(error)


async def compare(folder: Path, only: list[str]) -> int:
    """Play the specs of a folder; return how many differ in any permutation."""
    paths = [
        path for path in sorted((folder / "specs").glob("*.spec")) if not only or path.stem in only
    ]
    played, count, agreeing, differing = 0, 0, 0, []
    with EmbeddedServer.start(settings=SETTINGS) as server:
        for path in paths:
            found = await compared(path, folder / "expected" / f"{path.stem}.out", server)
            if isinstance(found, str):
                differing.append(path.stem)
                _say(f"{path.stem}: not played", found)
                continue
            played, count, agreeing = played + 1, count + found.count, agreeing + found.agreeing
            _say(f"{path.stem}: {found.agreeing} of {found.count}", *found.differences)
            if found.differences:
                differing.append(path.stem)
    _say(
        f"{len(paths)} specs, {played} played, {len(paths) - len(differing)} agree in every permutation; "
        f"{agreeing:,} of {count:,} permutations"
    )
    if differing:
        _say(f"not: {', '.join(differing)}")
    return len(differing)


def _say(*lines: object) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.spec", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    chosen = parser.parse_args()
    log.configure(level="error", layout="text")
    return 1 if asyncio.run(compare(chosen.folder, chosen.only)) else 0


if __name__ == "__main__":
    sys.exit(main())
