"""Tests of the warnings about published routines whose calls may differ."""

from __future__ import annotations

import pytest

from tests.fix_topology import MakeTopology
from twopc.proc_execution import ProcArticle

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


CHANGE = """
create or replace procedure change(n int) language plpgsql as $$
begin update note set at = {value} where id = n; delete from note where id < n; end $$
"""


async def test_every_later_step_warns(
    make_topology: MakeTopology, caplog: pytest.LogCaptureFixture
) -> None:
    """A filter, a call format and a new text cause warnings after the routine was published."""
    topology = await make_topology(subscribers=("sub1",))
    await topology.execute("pub", TABLE)
    await topology.publish("note")
    await topology.execute("pub", CHANGE.format(value="null"))
    await topology.publish_procedure("change")

    def told() -> set[str]:
        kinds = {each.__dict__.get("kind") or each.getMessage() for each in caplog.records}
        caplog.clear()
        return {str(kind) for kind in kinds}

    assert not any("may differ" in each for each in told())
    await topology.articles.change("note", {"del": "NONE"})
    assert any("stays" in each for each in told())
    await topology.subscribe("sub1", update_mode="read only", filters={"note": "at is null"})
    assert {"row_filter", "moves"} <= kinds_of(await topology.procedures.published())
    assert any("moves" in each for each in told())
    await topology.execute("pub", CHANGE.format(value="now() + random() * interval '1 s'"))
    assert "random" in kinds_of(await topology.procedures.published())
    assert any("random" in each for each in told())


def kinds_of(routines: tuple[ProcArticle, ...]) -> set[str]:
    """Return the kinds of the only routine's warnings."""
    [routine] = routines
    return {each.kind for each in routine.warnings}
