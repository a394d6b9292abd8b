"""The example of the seed: the default procedures of AdventureWorks' Vendor, for PostgreSQL."""

from __future__ import annotations

import re

from tests.propagation.here import Here, mask
from tests.propagation.vendor import COLUMNS, PLACE, VENDOR
from twopc.propagation import bitmask_bytes
from twopc.subscriber.propagation import script_procedure

SCRIPTS = ("sp_scriptinsproc", "sp_scriptsupdproc", "sp_scriptdelproc")


def shown(script: str) -> str:
    return script_procedure(script, VENDOR, 1, PLACE)


def test_their_names_and_parameters() -> None:
    """Procedures are named by schema and table; c1 to c8 precede the key and a bitmask of two bytes."""
    heads = [
        re.search(r"create function (\S+)\((.*?)\) returns void", shown(script), re.S)
        for script in SCRIPTS
    ]
    found = {head[1]: " ".join(head[2].split()) for head in heads if head is not None}
    values = [f"c{n} {kind}" for n, (_, _, kind) in enumerate(COLUMNS, 1)]
    optional = [f"{each} default null" for each in [*values, "pkc1 integer", "bitmap bytea"]]
    assert found == {
        '"purchasing"."sp_msins_purchasingvendor"': ", ".join(values),
        '"purchasing"."sp_msupd_purchasingvendor"': ", ".join(optional),
        '"purchasing"."sp_msdel_purchasingvendor"': "pkc1 integer",
    }
    assert bitmask_bytes(len(COLUMNS)) == 2


def test_the_update_sets_what_the_bitmask_says() -> None:
    """Columns 2 to 8 are set by bits 2 to 128 of the first byte, and the key by bit 1 if it changes."""
    with_key, without_key = re.findall(
        r"update .*? set\n(.*?)where (.*?);", shown(SCRIPTS[1]), re.S
    )
    assignment = re.compile(
        r'"(\w+)" = case byte(\d) & (\d+) when (\d+) then c(\d) else t."(\w+)" end'
    )
    expected = [
        (name, "1", str(2 ** (n - 1)), str(2 ** (n - 1)), str(n), name)
        for n, (name, _, _) in enumerate(COLUMNS, 1)
    ]
    assert assignment.findall(without_key[0]) == expected[1:]
    assert assignment.findall(with_key[0]) == expected
    assert with_key[1] == without_key[1] == 't."vendorid" operator(pg_catalog.=) pkc1'


def test_update_and_delete_look_for_their_row() -> None:
    for script in SCRIPTS[1:]:
        assert re.search(
            r"if not found then\s+perform msrepl.sp_msreplraiserror\(20598,", shown(script)
        )
    assert "20598" not in shown(SCRIPTS[0])


async def test_the_example_at_work(here: Here) -> None:
    """A new credit rating is sent as one value, the key and the bitmask 0x0800."""
    definitions = ", ".join(f"{name} {kind}" for name, _, kind in COLUMNS)
    await here.subscribe(
        f"create schema purchasing; create table purchasing.vendor ({definitions}, primary key (vendorid))",
        schema="purchasing",
        table="vendor",
    )
    await here.apply(
        "ins", 43659, "ADVANCED0001", "Advanced Bicycles", 1, "t", "t", None, "2002-02-25"
    )
    assert mask(8, 4).hex() == "0800"
    await here.apply("upd", None, None, None, 2, None, None, None, None, 43659, mask(8, 4))
    # a NULL that is sent, and a NULL that stands for an unchanged value
    await here.apply("upd", None, None, None, None, None, None, None, None, 43659, mask(8, 6, 8))
    assert await here.rows(
        "purchasing.vendor", "vendorid, name, creditrating, activeflag, modifieddate"
    ) == [(43659, "Advanced Bicycles", 2, None, None)]
    await here.apply("del", 43659)
    error = await here.fails("del", 43659)
    assert error.diag.message_primary == (
        "the row was not found at the Subscriber when applying the replicated DELETE command for table "
        "purchasing.vendor with primary key vendorid = 43659 (20598)"
    )


async def test_called_by_name(here: Here) -> None:
    """A manual call by parameter names may omit unchanged values, as in the original."""
    await here.subscribe("create table t (id int primary key, a text, b text)")
    await here.apply("ins", 1, "a", "b")
    await here.admin.execute(r"select sp_msupd_t(c3 => 'new', pkc1 => 1, bitmap => '\x04')")
    assert await here.rows() == [(1, "a", "new")]
