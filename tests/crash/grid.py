"""The whole crash matrix under its old name; see `sim.crash.grid`."""

from __future__ import annotations

import sys

from sim.crash.grid import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
