"""Tests of a Publisher's trigger that calls a published routine within a Subscriber's change."""

from __future__ import annotations

import json

from tests.fix_topology import MakePair
from twopc.publisher import proc_execution

ITEM = "create table item (id int primary key, n int)"
LOG = "create table log (id int primary key, n int)"
TRIGGER = """
create procedure note(n int) language plpgsql as $$ begin {body}; end $$;
create function noting() returns trigger language plpgsql security definer as $$ begin call note(new.id); return null; end $$;
create trigger noting after insert on item for each row execute function noting()
"""


async def test_it_travels_as_rows(make_pair: MakePair) -> None:
    """A branch has no call marker, and a routine that changes a published table in it is refused."""
    for body, refused in (("perform 1", False), ("insert into log values (n, n)", True)):
        pair = await make_pair(ITEM, LOG, TRIGGER.format(body=body), publish=["item", "log"])
        here = await pair.topology.admin("pub")
        # The calls of the trigger's routine are stored: the trigger is not on a declared table.
        article = await proc_execution.publish_procedure(
            here, "public", "note", reads=["log"], writes=["log"]
        )
        await proc_execution.set_called(here, [article.article_id])
        await here.execute("set default_transaction_isolation = serializable")
        await here.execute("insert into item values (1, 1)")
        marks = "select count(*)::int from msrepl.call_marker"
        assert await pair.topology.execute("pub", marks) == [(2,)]
        change = "insert into item values (2, 2)"
        if refused:
            error = await pair.refused(change, isolation="serializable")
            assert json.loads(str(error.diag.message_detail))["kind"] == "triggered_change"
        else:
            await pair.run(change, isolation="serializable")
        assert await pair.topology.execute("pub", marks) == [(2,)]
