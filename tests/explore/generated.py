"""Small programs drawn by chance, and what may be exchanged in runs of them.

python -m tests.explore.generated [FIRST [COUNT]]
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from tests.explore.commuting import Runs
from tests.explore.small import spec
from twopc.protocol import VARIANTS
from twopc.sim.model.choosers import ChoiceKernel
from twopc.sim.model.explore.programs import Script, ScriptClient
from twopc.sim.model.values import ModelSpec

#: Faults of which a program has one at most, and how often each is drawn.
FAULTS = (
    "", "coordinator", "publisher", "subscriber", "log", "connection", "backend", "publisher away",
    "subscriber away", "another",
)  # fmt: skip
_STATEMENTS = (
    "update account set balance = balance - 10 where id = 1",
    "update account set balance = balance + 10 where id = 1",
    "update account set balance = balance + 10 where id = 2",
    "update account set balance = balance - 10",
    "select balance from account where id = 1",
    "select balance from account where id = 2 for update",
    "insert into account values ({new}, 7)",
    "delete from account where id = 2",
    "update account set balance = balance - 60 where id = 1",
    "lock table account in share mode",
)
_LEVELS = ("read committed", "read committed", "repeatable read", "serializable")
#: From this seed on programs are wider: they have these faults and statements too, two transactions of a session, and
#: transactions of several Subscribers.
WIDER = 1000
#: From this seed on two faults may strike.
TWICE = 2000
_WIDER_FAULTS = (*FAULTS, "hand", "pause", "machine", "agent", "log reader")
_WIDER_STATEMENTS = (
    *_STATEMENTS,
    "insert into account values (9, 1)",
    "insert into account values (9, 1)",
    "savepoint one",
    "rollback to one",
    "select pg_try_advisory_lock(1)",
    "select pg_try_advisory_xact_lock(1)",
    "select pg_advisory_unlock(1)",
    "set local synchronous_commit = off",
    "set local lock_timeout = '50ms'",
    "select balance from account where id = 1 for share",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedProgram:
    """A program, and the faults that may strike once in it."""

    script: Script
    fault: str
    later: str = ""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Its faults."""
        return tuple(one for one in (self.fault, self.later) if one)


def generated(seed: int) -> GeneratedProgram:
    """The program of a seed."""
    if seed >= WIDER:
        return _wider(seed)
    chance = Random(f"program {seed}")
    fault = chance.choice(FAULTS)
    alone = chance.random() < 0.1
    kind = "publisher" if alone else chance.choice(("coordinated", "coordinated", "any client"))
    distributes = chance.random() < 0.4
    count = chance.choice((2, 2, 3))
    if alone and "subscriber" in fault:
        fault = ""
    return GeneratedProgram(
        script=Script(
            name=f"generated {seed}",
            spec=_spec(kind, chance, distributes=distributes),
            clients={
                f"c{number}": _client(kind, number, chance, distributes=distributes)
                for number in range(count)
            },
        ),
        fault=fault,
    )


def _wider(seed: int) -> GeneratedProgram:
    chance = Random(f"program {seed}")
    kind = chance.choice(("publisher", *["coordinated"] * 5, *["any client"] * 3))
    distributes = chance.random() < 0.3
    spec_ = replace(
        _spec(kind, chance, distributes=distributes),
        prepared_max=chance.choice((1, 3, 64)),
        shipping=chance.choice(("eager", "eager", "lazy")),
    )
    clients = {
        f"c{number}": _wider_client(kind, number, chance, spec_)
        for number in range(chance.choice((2, 2, 3)))
    }
    fault = chance.choice(_WIDER_FAULTS)
    if kind == "publisher" and "subscriber" in fault:
        fault = ""
    later = chance.choice(_WIDER_FAULTS) if fault and seed >= TWICE else ""
    if kind == "publisher" and "subscriber" in later:
        later = ""
    return GeneratedProgram(
        script=Script(name=f"generated {seed}", spec=spec_, clients=clients),
        fault=fault, later=later,
    )  # fmt: skip


def _wider_client(kind: str, number: int, chance: Random, spec_: ModelSpec) -> ScriptClient:
    subscribers = len(spec_.subscribers)
    several = subscribers > 1 and spec_.commit == "presumed_abort" and chance.random() < 0.5
    at = "sub1" if several else chance.choice(("sub1", "sub1", "sub1", f"sub{subscribers}"))
    steps: list[tuple[str, str]] = []
    places: dict[str, str] = {}
    for _ in range(chance.choice((1, 1, 2))):
        for _ in range(chance.choice((1, 1, 2, 3))):
            name = f"s{len(steps)}"
            steps.append((name, chance.choice(_WIDER_STATEMENTS).format(new=3 + number)))
            if several:
                places[name] = chance.choice(("sub1", "sub2"))
        end = chance.choice(("commit", "commit", "commit", "rollback"))
        steps.append((f"s{len(steps)}", end))
    return ScriptClient(
        node="pub" if kind == "publisher" else at,
        steps=tuple(steps),
        level=chance.choice(_LEVELS),
        any_client=kind == "any client",
        also=("sub2",) if several else (),
        at=places,
    )


def _spec(kind: str, chance: Random, *, distributes: bool) -> ModelSpec:
    if kind == "any client":
        made = spec("last_agent", chance.choice((1, 2)), distributes=distributes)
        return replace(
            made, subscribers=tuple(replace(one, any_client=True) for one in made.subscribers)
        )
    variant = chance.choice([*VARIANTS])
    return spec(variant, 2, distributes=distributes)


def _client(kind: str, number: int, chance: Random, *, distributes: bool) -> ScriptClient:
    at = chance.choice(("pub", "sub1", "sub1", "sub2")) if kind == "coordinated" else "sub1"
    texts = [
        chance.choice(_STATEMENTS).format(new=3 + number)
        for _ in range(chance.choice((1, 1, 2, 3)))
    ]
    end = "commit" if chance.random() < 0.85 else "rollback"
    steps = [*texts, end]
    if distributes and chance.random() < 0.3:
        steps.append("sync")
    return ScriptClient(
        node="pub" if kind == "publisher" else at,
        steps=tuple((f"s{place}", text) for place, text in enumerate(steps)),
        level=chance.choice(_LEVELS),
        any_client=kind == "any client",
    )


def differences(
    seed: int, draws: int = 4, kernel: Callable[[], ChoiceKernel] = ChoiceKernel
) -> Iterator[str]:
    """What may not be exchanged in runs of a program, and is said to be independent."""
    program = generated(seed)
    runs = Runs(program.script, program.kinds, kernel)
    for draw in range(draws):
        yield from runs.differences(Random(f"{seed} {draw}"))


def main(first: str = "0", count: str = "100") -> int:
    """Every difference; 1 if there is one."""
    logging.disable(logging.CRITICAL)
    found = 0
    for seed in range(int(first), int(first) + int(count)):
        program = generated(seed)
        for what in differences(seed):
            found += 1
            sys.stdout.write(f"{seed} {program.fault}: {what}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{found} differ\n")
    return min(1, found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
