"""Theatre on a model, in virtual time: without a server, and with identical results each time.

It requires a `twopc.sim.model.loop.VirtualLoop`. When steps are started is decided by the runner.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Self

from twopc.drivers.points import Points
from twopc.errors import ConfigurationError
from twopc.merge.protections import MergeProtection
from twopc.sim.faults.capabilities import ON_MODEL
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.loop import VirtualLoop
from twopc.sim.model.plants.protections import SUPPORTED, wiring_for
from twopc.sim.model.system import System
from twopc.sim.model.values import (
    BEGAN_S,
    ModelSpec,
)
from twopc.sim.model.wiring import Wiring
from twopc.sim.scenario.model_check import (
    NullRecorder,
    built,
    built_to_merge,
)
from twopc.sim.scenario.model_setup import SETTINGS, spec_of
from twopc.sim.scenario.model_stage import ModelStage
from twopc.sim.scenario.values import Capabilities, Case


class ModelTheatre:
    """Creates a model for each case; an async context manager.

    Args:
        seed: seed of all random values, if neither the case nor the scenario has one.
        wiring: wiring of the models, except for protections that a twin switches off.
        servers: ``one`` server for all nodes, or one for ``each``: which nodes share the limits of a server.
        began_s: time of the nodes' clocks at the beginning of a run, in seconds since 1970.
        kernel: creates the kernel of a model from its seed; observers replace it.
        points: creates the protocol points of a model; observers replace it.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        wiring: Wiring | None = None,
        servers: str = "one",
        began_s: float = BEGAN_S,
        kernel: Callable[[int], SimpyKernel] = SimpyKernel,
        points: Callable[[], Points] = Points,
    ) -> None:
        self._seed = seed
        self._began_s = began_s
        self._kernel = kernel
        self._points = points
        self._one_server = servers == "one"
        self._wiring = wiring or Wiring()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Do nothing."""

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities of the model."""
        return Capabilities(
            name="model",
            protections=SUPPORTED | frozenset(MergeProtection),
            faults_at=ON_MODEL,
            is_virtual=True,
            settings=SETTINGS,
        )

    @property
    def kept(self) -> Sequence[tuple[str, str, str]]:
        """Always empty: nothing remains of a model."""
        return ()

    def stage(self, case: Case) -> AbstractAsyncContextManager[ModelStage]:
        """See `twopc.sim.scenario.stage.Theatre`.

        Raises:
            ConfigurationError: the running loop does not have virtual time.
        """
        return self._stage(case)

    @asynccontextmanager
    async def _stage(self, case: Case) -> AsyncIterator[ModelStage]:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualLoop):
            raise ConfigurationError(
                "a model is played in virtual time: run it with twopc.sim.scenario.theatres.played"
            )
        spec = spec_of(case, seed=self._seed, one_server=self._one_server)
        spec = dataclasses.replace(spec, began_s=self._began_s)
        kernel, recorder = self._kernel(spec.seed), NullRecorder()
        with loop.inside(kernel):
            if case.scenario.merges:
                stage = _merging(case, spec, kernel, recorder, self._points())
            else:
                wiring = wiring_for(case.off, self._wiring)
                model = built(
                    case.scenario, spec, wiring,
                    kernel=kernel, recorder=recorder, points=self._points(),
                )  # fmt: skip
                stage = _stage_of(model, case, recorder)
            yield stage
            await stage.take_down()


def _merging(
    case: Case, spec: ModelSpec, kernel: SimpyKernel, recorder: NullRecorder, points: Points
) -> ModelStage:
    from twopc.sim.scenario.merge_model_stage import MergeModelStage  # few scenarios need it

    model, merging = built_to_merge(
        case.scenario, spec, points, case.off, kernel=kernel, recorder=recorder
    )
    return MergeModelStage(model, case, recorder, merging, points)


def _stage_of(model: System, case: Case, recorder: NullRecorder) -> ModelStage:
    """Return the stage for a case: one that injects faults if the case arms any."""
    if not case.faults:
        return ModelStage(model, case.scenario, recorder)
    from twopc.sim.faults.model_stage import FaultyModelStage  # few scenarios need it

    return FaultyModelStage(model, case, recorder)
