"""Worker that plays on PostgreSQL: ``python -m twopc.sim.explore.postgres_worker FOLDER WHICH``.

Its servers are started for the first order and stay until the command ends.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from twopc.errors import ServerError
from twopc.sim.explore.bases import SwitchError
from twopc.sim.explore.model_worker import ModelBench
from twopc.sim.explore.plays import play, run_of, variant_of
from twopc.sim.explore.variants import ChosenCase, chosen
from twopc.sim.explore.wire.runs import PostgresAnswer, WireCard, WireDifference, WireRun
from twopc.sim.explore.worker import Answering, StoppedError, serve
from twopc.sim.report.history import History, HistoryRecord
from twopc.sim.scenario.agree import Disagreement, compare, free
from twopc.sim.scenario.check import LoadedScenario
from twopc.sim.scenario.postgres_theatre import PostgresTheatre
from twopc.sim.scenario.run import begin, header, refuse
from twopc.sim.scenario.runner import play_case
from twopc.sim.scenario.values import CaseLesson, Selection

_WAIT = "'s wait"


class PostgresBench:
    """Jobs of the worker, with servers that stay.

    Args:
        pg: choice of PostgreSQL, see `twopc.server.choose`.
    """

    def __init__(self, pg: str) -> None:
        self._bench = ModelBench()
        self._runner = asyncio.Runner()
        self._pg = pg
        self._theatre = PostgresTheatre(pg=pg)

    def play(self, request: Mapping[str, Any], answer: Answering) -> PostgresAnswer:
        """Play an order on servers and on the model, and compare both."""
        loaded = self._bench.loaded(request["path"], request["text"])
        variant = variant_of(request)
        model = play(loaded, variant)
        began = time.perf_counter()
        made = chosen(loaded, variant)
        self._refuse(loaded, made)
        try:
            history, own, lesson = self._runner.run(self._stoppable(loaded, made, answer))
        except ServerError as error:
            self._leave()  # the next order gets new servers
            raise ServerError(f"{error}\nThe next order is played on servers anew.") from error
        run, _ = run_of(made, variant["order"], own, lesson, None, on="postgres", began=began)
        differences = compare(model.records, history.records)
        other_choice = "; ".join(free(model.records, history.records).values())
        if not differences and not other_choice:
            differences = [*_other_waits(model.run, run)]
        return {
            "run": run,
            "model": model.run,
            "first_difference": _difference(differences[0]) if differences else None,
            "differences": len(differences),
            "chosen": other_choice,
        }

    def _refuse(self, loaded: LoadedScenario, made: ChosenCase) -> None:
        """Raise `SwitchError` or `NotPlayableError` for a case that is not possible on servers."""
        possible = self._theatre.capabilities
        for name in sorted(made.case.off - possible.protections):
            why = possible.why_on.get(name)
            raise SwitchError(
                f"{name} cannot be switched off on real servers" + (f": {why}" if why else "")
            )
        refuse(dataclasses.replace(loaded, scenario=made.case.scenario), possible)

    async def _stoppable(
        self, loaded: LoadedScenario, made: ChosenCase, answer: Answering
    ) -> tuple[History, Sequence[HistoryRecord], CaseLesson]:
        """Play a case; raise `StoppedError` if the job is stopped."""
        loop = asyncio.get_running_loop()
        playing = asyncio.create_task(self._play(loaded, made))
        answer.on_stop = lambda: loop.call_soon_threadsafe(playing.cancel)
        if answer.is_stopped:  # stopped before `on_stop` was set
            playing.cancel()
        try:
            return await playing
        except asyncio.CancelledError:
            raise StoppedError("the run on PostgreSQL was stopped") from None
        finally:
            answer.on_stop = None

    async def _play(
        self, loaded: LoadedScenario, made: ChosenCase
    ) -> tuple[History, Sequence[HistoryRecord], CaseLesson]:
        history, case = History(), made.case
        history.write("header", data=header(loaded, self._theatre, Selection()))
        own = history.of(case.name)
        async with self._theatre.stage(case) as stage:
            begin(own, loaded, case)
            lesson = await play_case(case, stage, own)
        own.write("end")
        return history, own.records, lesson

    def close(self) -> None:
        """Stop the servers."""
        self._leave()
        self._runner.close()

    def _leave(self) -> None:
        """Stop the servers if they still run."""
        theatre, self._theatre = self._theatre, PostgresTheatre(pg=self._pg)
        with suppress(ServerError):
            self._runner.run(theatre.__aexit__(None, None, None))


def _other_waits(model: WireRun, run: WireRun) -> Iterator[Disagreement]:
    """Yield steps whose cards show a wait on one side only, for no session: other comparisons do not see it."""
    for one, other in zip(model["cards"], run["cards"], strict=False):
        if one["state"] != other["state"]:
            yield Disagreement(
                order="", about=f"{one['step']}{_WAIT}", one=_waited(one), other=_waited(other)
            )


def _waited(card: WireCard) -> str:
    return f"for {card['waits_for']}" if card["waits_for"] else "nothing"


def _difference(one: Disagreement) -> WireDifference:
    return {
        "about": one.about,
        "model": one.one,
        "postgres": one.other,
        "text": one.text("the model", "PostgreSQL"),
        "step": one.about.removesuffix(_WAIT),
    }


def main(folder: str, pg: str) -> None:
    """Serve jobs until the server has ended."""
    os.chdir(folder)
    bench = PostgresBench(pg)
    serve({"play": bench.play}, bench.close)


if __name__ == "__main__":
    main(*sys.argv[1:3])
