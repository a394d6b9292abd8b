"""A process that appends pending transactions to an archive, and may die at a point (``TWOPC_ARM``).

``python -m tests.spark.archive.dying ARCHIVE SEQNO …``
"""

from __future__ import annotations

import sys

from tests.spark.archive.made import facts, stage
from twopc.sim.spark.archive import Archive, writer
from twopc.sim.spark.archive.append import add, reach


def main() -> None:
    """Append what follows the archive's position, as `append` does after Spark has written it."""
    seqnos = [int(each) for each in sys.argv[2:]]
    with writer(Archive.open(sys.argv[1])) as held:
        left = [each for each in seqnos if each > held.manifest.position]
        if left:
            reach("archive.before_write")
            add(held, stage(held.folder, left), upto=left[-1], facts=facts())


if __name__ == "__main__":
    main()
