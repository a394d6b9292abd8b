"""How a Subscriber is initialised: every line of seed 003, whether it applies or not."""

from __future__ import annotations

import itertools

from twopc.merge.ladder import InitialisationMethod, InitialisationStep, SnapshotFacts, choose

APPLY, GENERATE, SELECT = InitialisationMethod


def test_every_line() -> None:
    """Each combination of conditions selects the first line that applies."""
    expected = {
        # given, pregenerated, may start, shared
        **{(True, *rest): ("given", APPLY) for rest in itertools.product((True, False), repeat=3)},
        **{
            (False, True, *rest): ("pregenerated", APPLY)
            for rest in itertools.product((True, False), repeat=2)
        },
        (False, False, True, True): ("shared", APPLY),
        (False, False, True, False): (None, GENERATE),
        (False, False, False, True): (None, SELECT),
        (False, False, False, False): (None, SELECT),
    }
    assert len(expected) == 16
    for (given, made, may_start, shared), (location, method) in expected.items():
        facts = SnapshotFacts(
            given="given" if given else None,
            pregenerated="pregenerated" if made else None,
            subscribers_may_start=may_start,
            shared="shared" if shared else None,
        )
        may_be_made = may_start and location in ("pregenerated", "shared")
        assert choose(facts) == InitialisationStep(method, location, may_be_made), facts
