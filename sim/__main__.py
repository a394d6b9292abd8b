"""``python -m twopc.sim``, equivalent to ``twopc``."""

from __future__ import annotations

from twopc.sim.cli import main

if __name__ == "__main__":
    main()
