"""``twopc tour``: a first conflict by hand."""

from __future__ import annotations

import asyncio

from twopc.sim.cli.up import Folder, uri


def tour(folder: Folder = None) -> None:
    """Meet a first conflict in two psql windows: what to type is said, and it is seen that you did.

    Takes ten minutes, and a topology of its own, which is removed at the end.
    """
    from twopc.sim.up import default_folder, remove
    from twopc.sim.up import up as bring_up
    from twopc.sim.up.tour import Tour

    place = folder or default_folder().with_name("tour")

    def say(text: str) -> None:
        print(text, flush=True)

    say(
        "Two copies of an account, and two programs that know nothing of each other. Type what stands behind"
    )
    say("1> and 2> into the window of that number. Ctrl-C ends the tour.")
    try:
        state = bring_up(place, subscribers=2)
        commands = {
            number: f"psql '{uri(state.nodes[name].app_dsn)}'"
            for number, name in enumerate(state.subscribers, 1)
        }
        asyncio.run(Tour(state, say).play(commands))
    finally:
        remove(place)
    say(
        "\nThat was it. Go on: `twopc up` for such a topology of your own, docs/any_client.md for how it works,"
    )
    say(
        "docs/clients.md for your language, `twopc run scenarios/immediate/lost_update.twopc.yaml` for every order."
    )
