"""``twopc tour``: a guided tour to a first conflict."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from twopc.sim.cli.up import Folder, uri


def tour(folder: Folder = None) -> None:
    """Produce a first conflict in two psql windows, guided step by step.

    Takes ten minutes and runs on a topology of its own, which is removed at the end.
    """
    from twopc.server.binaries import client_program
    from twopc.sim.up import tour_folder
    from twopc.sim.up import up as bring_up
    from twopc.sim.up.tour import Tour, held

    place = folder or tour_folder()
    psql = client_program("psql")
    signal.signal(signal.SIGHUP, _closed)  # otherwise the topology would outlive the terminal

    def say(text: str) -> None:
        print(text, flush=True)

    say(
        "Two copies of an account, and two programs that know nothing of each other. Type what stands behind"
    )
    say("1> and 2> into the window of that number. Ctrl-C ends the tour.")
    with held(place):
        state = bring_up(place, subscribers=2)
        commands = {
            # without CONTEXT, which only concerns the triggers; the prompt identifies the windows
            number: f"{psql} -v SHOW_CONTEXT=never -v PROMPT1='{name}%R%x%# ' -v PROMPT2='{name}%R%x%# ' "
            f"'{uri(state.nodes[name].app_dsn)}'"
            for number, name in enumerate(state.subscribers, 1)
        }
        asyncio.run(Tour(state, say).play(commands))
    say(
        "\nThat was it. Go on: `twopc up` for such a topology of your own, docs/any_client.md for how it works,"
    )
    say(
        "docs/clients.md for your language, `twopc run scenarios/immediate/lost_update.twopc.yaml` for every order."
    )


def _closed(*_: object) -> None:
    """Handle the loss of the terminal: end as on Ctrl-C, without further output."""
    sys.stdout = sys.stderr = Path("/dev/null").open("w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    raise KeyboardInterrupt
