"""Altered merged tables: sessions are refused with a remedy, and continue after it."""

from __future__ import annotations

import pytest

from tests.fix_merge import customer
from twopc.errors import MergeError
from twopc.sim.merge import MergeTopology

#: Drops the unique index of rowguid, whose name differs from node to node.
DROP_KEY = """
do $$
begin
    execute (select format('drop index %s', i.indexrelid::regclass) from pg_index as i
             where i.indrelid = 'customer'::regclass and not i.indisprimary);
end
$$
"""
#: Statement at a node, message of the session, and remedy.
FAULTS = (
    ("alter table customer rename to client", "renamed to client", "alter table client rename to customer"),
    ("create schema s; alter table customer set schema s", "to schema s", "alter table s.customer set schema public"),
    ("alter table customer rename phone to tel", "lost its column phone", "alter table customer rename tel to phone"),
    ("alter table customer alter phone type varchar", "type in column phone: character varying",
     "alter table customer alter phone type text"),
    ("alter table customer enable row level security", "row security",
     "alter table customer disable row level security"),
    ("alter table purchase set unlogged", "purchase is unlogged", "alter table purchase set logged"),
    ("alter table customer drop phone, add phone text generated always as ('1') stored", "computes its column phone",
     "alter table customer alter phone drop expression"),
    (DROP_KEY, "no unique key of its column rowguid",
     "alter table customer add unique (rowguid)"),
    ("create table child () inherits (customer)", "has a child public.child",
     "alter table child no inherit customer; drop table child"),
    ("create table whole (like purchase including defaults) partition by list (id);"
     " alter table whole attach partition purchase default", "purchase has become a part of public.whole",
     "alter table whole detach partition purchase; drop table whole"),
)  # fmt: skip


@pytest.mark.parametrize("node", ["pub", "anna"])
async def test_tables_that_were_altered(merge_shop: MergeTopology, node: str) -> None:
    """While a table at either end is altered, nothing is merged; afterwards nothing is lost."""
    for number, (statement, message, remedy) in enumerate(FAULTS):
        await merge_shop.execute("anna", "update customer set credit = %s where id = 1", (number,))
        await merge_shop.execute(node, statement)
        with pytest.raises(MergeError, match=f"{node}: table .*{message}"):
            await merge_shop.sync("anna")
        assert any(each.node == node for each in await merge_shop.check()), message
        await merge_shop.execute(node, remedy)
        assert (await merge_shop.sync("anna")).uploaded == 1, remedy
        assert (await customer(merge_shop, "pub"))[1] == number


async def test_triggers_that_are_mended(merge_shop: MergeTopology) -> None:
    """A new foreign key, and triggers that were disabled and enabled, leave no orphan."""
    await merge_shop.add_column("purchase", "other", "integer")
    await merge_shop.sync("anna")
    await merge_shop.sync("ben")
    for node in ("pub", "anna", "ben"):
        await merge_shop.execute(
            node, "alter table purchase add foreign key (other) references customer"
        )
    await merge_shop.execute("anna", "insert into customer values (3, '3', 3)")
    with pytest.raises(MergeError, match="has key purchase_other_fkey"):
        await merge_shop.sync("anna")
    await merge_shop.regenerate()
    assert (await merge_shop.sync("anna")).uploaded == 1
    await merge_shop.execute("anna", "alter table purchase disable trigger all")
    with pytest.raises(MergeError, match="anna: table purchase"):
        await merge_shop.sync("anna")
    await merge_shop.execute("anna", "alter table purchase enable trigger all")
    with pytest.raises(MergeError, match="anna: table purchase"):
        await merge_shop.sync("anna")
    await merge_shop.regenerate()
    assert await merge_shop.check() == []
    await merge_shop.execute(
        "anna", "insert into purchase (id, customer, code) values (5, 2, 'orphan')"
    )
    await merge_shop.execute("pub", "delete from customer where id = 2")
    await merge_shop.sync("anna")
    assert await merge_shop.execute("pub", "select 1 from purchase where id = 5") == []
    assert (await customer(merge_shop, "anna", 2))[0] == "1"
    await merge_shop.unsubscribe("anna")
    await merge_shop.unsubscribe("ben")
    await merge_shop.unpublish("purchase")
    modes = "select distinct tgenabled::text from pg_trigger where tgrelid = 'purchase'::regclass"
    assert await merge_shop.execute("pub", modes) == [("O",)]


@pytest.mark.parametrize("node", ["pub", "anna"])
async def test_keys_of_tables_that_are_not_merged(merge_shop: MergeTopology, node: str) -> None:
    """Foreign keys from tables that are not merged, created later, are noticed by sessions.

    No agent leaves an orphan under such a key, or skips its action.
    """
    other = {"pub": "anna", "anna": "pub"}[node]
    await merge_shop.execute("pub", "delete from purchase")
    await merge_shop.settle()
    note = "create table note (customer int references customer); insert into note values (1)"
    await merge_shop.execute(node, note)
    await merge_shop.execute(other, "delete from customer where id = 1")
    message = f"{node}: table customer has key note_customer_fkey of public.note.*merge regenerate"
    with pytest.raises(MergeError, match=rf"(?s){message}"):
        await merge_shop.sync("anna")
    await merge_shop.regenerate()
    assert (await merge_shop.sync("anna")).retried == 1
    assert await merge_shop.execute(node, "select id from customer where id = 1") == [(1,)]
    await merge_shop.execute(node, "drop table note")
    await merge_shop.settle()
    await merge_shop.execute(
        node, "create table memo (customer int references customer on delete cascade)"
    )
    message = "has key memo_customer_fkey of public.memo, which changes rows by itself"
    with pytest.raises(MergeError, match=rf"(?s)customer {message}.*NO ACTION"):
        await merge_shop.sync("anna")
    assert [each.node for each in await merge_shop.check()] == [node]
    await merge_shop.execute(
        node, "alter table public.memo drop constraint memo_customer_fkey;"
        " alter table memo add foreign key (customer) references customer",
    )  # fmt: skip
    await merge_shop.regenerate()
    await merge_shop.sync("anna")
