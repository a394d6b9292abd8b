"""Whoever publishes a routine whose calls may differ is told so."""

from __future__ import annotations

import pytest

from tests.fix_topology import MakeTopology

TABLE = "create table note (id int primary key, at timestamptz)"
BODY = """
create procedure jot(n int) language sql as $$ insert into note values (n, {value}) $$
"""


async def test_publishing_warns(
    make_topology: MakeTopology, caplog: pytest.LogCaptureFixture
) -> None:
    topology = await make_topology(subscribers=("sub1",))
    await topology.execute("pub", TABLE)
    await topology.execute("pub", BODY.format(value="clock_timestamp()"))
    await topology.publish("note")
    article = await topology.publish_procedure("jot")
    told = [each for each in caplog.records if "a call may differ" in each.getMessage()]
    assert [each.levelname for each in told] == ["WARNING"] * len(article.warnings)
    assert "clock" in {each.kind for each in article.warnings}
