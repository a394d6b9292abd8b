"""The order that is shown, on real servers beside the model."""

from __future__ import annotations

import pytest

from tests.explorer.server import ExploreProcess
from tests.explorer.test_server import LOST, WAITS, cards

pytestmark = pytest.mark.postgres


def test_servers_agree_with_the_model_and_stay_warm(server: ExploreProcess) -> None:
    """Twice on the same server, the second time without the version check: the update is lost on both."""
    first = server.post("/api/postgres", path=LOST, order=WAITS)
    assert (first["first_difference"], first["run"]["on"]) == (None, "postgres")
    assert cards(first)["b_write"]["state"] == "refused"
    assert cards(first)["b_write"]["waits_for"] == "alice (a_write) at pub"
    servers = {each.pid for each in server.workers() if "postgres" in each.name()}
    off = {"protection.version_check": "off"}
    second = server.post("/api/postgres", path=LOST, order=WAITS, switches=off)
    assert second["first_difference"] is None
    broken = {each["name"] for each in second["run"]["invariants"] if not each["holds"]}
    assert "no_lost_update" in broken
    assert servers
    assert servers & {each.pid for each in server.workers()}


def test_what_servers_cannot_do_is_refused(server: ExploreProcess) -> None:
    """A protection that stays on there, with the reason."""
    body = {"path": LOST, "order": WAITS, "switches": {"protection.fence": "off"}}
    status, value, _ = server.ask("POST", "/api/postgres", body)
    assert (status, value["kind"]) == (422, "switch")
    assert "fence cannot be switched off on real servers: it keeps out a request" in value["error"]
