"""Tests of the model's plain clients: the error that they get when their connection is lost."""

from __future__ import annotations

import pytest

from tests.model.distribution.rig import Rig
from twopc.errors import InDoubtError
from twopc.sim.model.clients import PublisherClient


def test_a_connection_that_was_lost_before_commit_is_known_only_then() -> None:
    """A client whose connection was lost gets InDoubtError at COMMIT, and uses no new session."""
    rig = Rig()
    client = PublisherClient("c", rig.nodes["pub"], rig.network)
    rig.run(client.begin())
    rig.run(client.execute("update account set balance = 1 where id = 1"))
    rig.crash_node("pub")
    rig.until(60)
    with pytest.raises(InDoubtError, match="its rows tell"):
        rig.run(client.commit())
    assert rig.balances("pub") == {"1": "100", "2": "100"}
