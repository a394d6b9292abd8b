"""The process that outlives its parent by a moment and clears a run directory away.

Started as a script by `run_directory`: its standard input is a pipe that only the parent can write,
so end of file means that the parent is gone, however it went. It inherits the directory's lock, so
that no sweep comes between. It imports next to nothing while it waits and must not know anything of
servers: `run_directory.clear` does the work.
"""

from __future__ import annotations

import os
import signal
import sys


def main(directory: str, lock: str, sockets: str) -> None:
    """Wait for the end of the parent, then clear what it left."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        # These are for the parent; its end is what counts here.
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    if not os.path.exists(lock):
        return  # the parent has cleared up itself
    from pathlib import Path

    from twopc.server.run_directory import clear

    clear(Path(directory), Path(sockets))
    os.unlink(lock)


if __name__ == "__main__":
    main(*sys.argv[1:])
