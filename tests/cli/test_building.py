"""A topology is built, changed and removed by commands alone, as a person types them."""

from __future__ import annotations

from tests.cli.shops import HERE, THREE, Shop


def rows(shop: Shop, node: str) -> list[tuple[object, ...]]:
    """Return the accounts at a node."""
    return shop.sql(node, "select id, balance from account order by id")


def publishes(shop: Shop) -> None:
    """Install a Publisher, and publish a table; wrong commands are refused."""
    shop.refuses(4, "`twopc install` makes one", "publish", "account", at=("pub",))
    shop.refuses(4, "2 of the nodes given are to be", "install", "shop", at=("pub", "store"))
    shop.refuses(4, "cannot be part of a gid", "install", "a shop", at=("pub",))
    assert "pub is the Publisher" in shop.does("install", "shop", at=("pub", "distribution"))
    shop.refuses(4, "is a Publisher already", "install", "other", at=("pub", "distribution"))

    assert shop.does("article", "show", at=HERE) == "no table is published: twopc publish TABLE\n"
    shop.refuses(4, "nothing is published yet", "subscribe", "store", at=THREE)
    shop.refuses(4, "table public.nothing does not exist", "publish", "nothing", at=HERE)
    shop.refuses(4, "'nothing'", "publish", "account", "--columns", "id,nothing", at=HERE)
    shop.refuses(4, "nothing", "publish", "account", "--filter", "nothing = 1", at=HERE)
    shop.refuses(4, "SHOUT", "publish", "account", "--upd", "SHOUT", at=HERE)
    shop.refuses(2, "write TABLE", "publish", ".account", at=HERE)
    assert "next: twopc subscribe" in shop.does("publish", "account", at=HERE)
    shop.refuses(4, "`twopc unpublish` it first", "publish", "account", at=HERE)
    shop.refuses(4, "note is not published", "unpublish", "note", at=HERE)


def mistakes_of_subscribing(shop: Shop) -> None:
    """Give wrong commands for subscribing, each of which is refused without a change."""
    shop.refuses(4, "no node 'shelf'", "subscribe", "shelf", at=THREE)
    shop.refuses(4, "is the publisher, not", "subscribe", "pub", at=THREE)
    shop.refuses(4, "use 'automatic'", "subscribe", "store", "--sync", "some", at=THREE)
    shop.refuses(
        4, "note is not published", "subscribe", "store", "--filter", "note=id=1", at=THREE
    )
    bad = ("--filter", "account=nothing = 1")
    shop.refuses(4, "nothing", "subscribe", "store", *bad, at=THREE)
    shop.refuses(
        4, "neither one of the numbers", "subscribe", "store", "--skip-errors", "x", at=THREE
    )
    shop.refuses(2, "write TABLE=", "subscribe", "store", "--filter", "account", at=THREE)
    twice = ("--filter", "account=id < 9", "--filter", "account=id < 8")
    shop.refuses(2, "given twice", "subscribe", "store", *twice, at=THREE)
    twice = ("--filter", "account=id < 9", "--filter", "public.account=id < 8")
    shop.refuses(4, "named twice", "subscribe", "store", *twice, at=THREE)
    script = ("--script", f"note={__file__}")
    shop.refuses(4, "note is not published", "subscribe", "store", *script, at=THREE)
    shop.refuses(4, "holds nothing of ours", "sync")
    shop.refuses(4, "does not subscribe", "unsubscribe", "store", at=THREE)
    shop.sql("store", "create table account (id text primary key)")
    shop.refuses(4, "account", "subscribe", "store", at=THREE)
    shop.sql("store", "drop table account")


def subscribes(shop: Shop) -> None:
    """Subscribe two Subscribers of both kinds; what is in use cannot be removed."""
    assert "store: subscribes" in shop.does("subscribe", "store", at=THREE)
    said = ("--skip-errors", "20598", "--streams", "2", "--filter", "account=id < 3")
    assert "desk: subscribes, read only" in shop.does("subscribe", "desk", "--read-only", *said)
    told = "store: left out, since its node is not given\n"
    for words in (("sync",), ("refresh",), ("validate",)):
        assert told in shop.does(*words, at=HERE), words
    shop.refuses(4, "give the nodes of store, too", "any-client", "off", at=HERE)
    shop.refuses(
        4, "subscribes already, sync tran (21058): `twopc unsubscribe store`", "subscribe", "store"
    )
    shop.refuses(4, "(14046): `twopc unsubscribe` desk", "unpublish", "account")
    shop.refuses(4, "still subscribe: `twopc unsubscribe desk`", "uninstall")
    shop.refuses(4, "is read only", "activate", "desk")


def changes_an_article(shop: Shop) -> None:
    """Change an article; what was changed before is delivered in the earlier format."""
    shop.does("any-client", "on")
    shop.sql("pub", "insert into account values (3, 300)")
    shop.sql("pub", "update account set balance = 150 where id = 1")
    shop.does("sync")
    assert rows(shop, "store") == [(1, 150), (2, 100), (3, 300)]
    assert rows(shop, "desk") == [(1, 150), (2, 100)]
    assert "upd SCALL" in shop.does("article", "show", "account")
    shop.sql("pub", "update account set balance = 160 where id = 1")
    shop.refuses(2, "say --ins", "article", "change", "account")
    shop.refuses(4, "not published", "article", "change", "account", "--large", "nothing")
    shop.refuses(2, "there are sp_scriptinsproc", "article", "script", "account", "sp_scriptx")
    text = shop.does("article", "script", "account", "sp_scriptxupdproc")
    assert text.startswith("create function") and "msrepl.sp_msreplraiserror(20598" in text
    shop.refuses(4, "sp_mine", "article", "change", "account", "--upd", "CALL sp_mine")
    assert "upd XCALL" in shop.does(
        "article", "change", "account", "--upd", "XCALL", "--ins", "SQL", "--large", "balance"
    )
    shop.sql("pub", "update account set balance = 170 where id = 1")
    shop.sql("pub", "insert into account values (0, 0)")
    shop.does("sync")
    assert rows(shop, "store") == rows(shop, "pub")
    last = [line for line in shop.does("browse").splitlines() if "sp_msupd_account" in line][-1]
    assert "160" not in last and "170" in last, "an old value travels although it is large"
    assert "large balance" in shop.does("article", "show", "account")


def publishes_more(shop: Shop) -> None:
    """Publish a table and a routine, alter it at the Publisher only, and reinitialise a copy."""
    assert "next: twopc refresh" in shop.does("publish", "note")
    assert "double" in shop.does("procedure", "publish", "double", "--writes", "account")
    shop.refuses(4, "is published already", "procedure", "publish", "double")
    shop.refuses(4, "no procedure or function nothing", "procedure", "publish", "nothing")
    shop.refuses(2, "use 'serializable", "procedure", "publish", "double", "--type", "x")
    shop.refuses(4, "does not subscribe", "refresh", "pub")
    done = shop.does("refresh")
    assert done.splitlines() == [f"{name}: note, public.double()" for name in ("desk", "store")]
    assert "has everything" in shop.does("refresh", "store")
    shop.does("procedure", "alter", "double", "--no-replicate-ddl")
    shop.sql(
        "pub",
        "create or replace procedure double() language sql as 'update account set balance = 2 * balance'",
    )
    shop.does("sync")
    assert "stay at the Publisher" in shop.does("procedure", "show")
    bodies = "select prosrc from pg_proc where proname = 'double' and prosrc ~ 'balance'"
    assert "balance * 2" in str(shop.sql("desk", bodies))
    assert "2 * balance" in str(shop.sql("pub", bodies))

    shop.sql("store", "set session_replication_role = replica; delete from account where id = 1")
    assert "anew" in shop.does("reinitialise", "store")
    shop.does("sync")
    assert rows(shop, "store") == rows(shop, "pub")


def test_from_nothing_to_nothing(shop: Shop) -> None:
    """What was published, subscribed and changed is removed; each mistake on the way is refused."""
    before = shop.catalog()
    publishes(shop)
    mistakes_of_subscribing(shop)
    subscribes(shop)
    changes_an_article(shop)
    publishes_more(shop)
    shop.does("procedure", "unpublish", "double")
    shop.does("unsubscribe", "desk")
    shop.refuses(4, "does not subscribe", "reinitialise", "desk", at=THREE)
    shop.does("unsubscribe", "store")
    shop.refuses(4, "account is still published", "uninstall")
    shop.does("unpublish", "account")
    shop.does("unpublish", "note")
    shop.does("uninstall")
    for name, lines in shop.catalog().items():
        kept = ("account", "note") if name in ("store", "desk") else ()
        new = {line for line in lines - before[name] if not any(each in str(line) for each in kept)}
        assert not new, name


def test_names_with_dots(shop: Shop) -> None:
    """In every command a table's name may contain dots."""
    shop.sql("pub", 'create schema app; create table app."a.b" (id int primary key)')
    shop.sql("pub", 'insert into app."a.b" values (1), (2)')
    shop.does("install", "shop", at=HERE)
    shop.does("publish", "app.a.b", at=HERE)

    shop.does("subscribe", "store", "--filter", "app.a.b=id > 1", at=THREE)

    assert shop.sql("store", 'select id from app."a.b"') == [(2,)]


def test_a_stopped_agent_says_how_it_goes_on(shop: Shop) -> None:
    """The commands in a stopped agent's message, in their order, repair the row."""
    shop.does("install", "shop", at=HERE)
    shop.does("publish", "account", at=HERE)
    shop.does("subscribe", "store", "--read-only", at=THREE)
    shop.sql("store", "delete from account where id = 1")
    shop.sql("pub", "update account set balance = 7 where id = 1")
    said = shop.twopc("sync", *shop.options(THREE)).stderr
    commands = [each for each in said.split("`") if each.startswith("twopc ")]
    assert len(commands) == 2, said
    for command in commands:
        words = command.replace("SUBSCRIBER", "store").split()[1:]
        at = ("distribution", "store") if words[0] == "agent" else THREE
        drive = ["--drive"] if words[0] == "validate" else []
        done = shop.twopc(*words, *drive, *shop.options(at))
        assert done.returncode == 0, (command, done)

    assert rows(shop, "store") == rows(shop, "pub")
    shop.does("sync", at=THREE)


def test_a_script_for_part_of_the_rows(shop: Shop) -> None:
    """`script` takes the filters of `subscribe`; `unsubscribe` revokes one that was not run."""
    shop.does("install", "shop", at=HERE)
    shop.does("publish", "account", at=HERE)
    shop.sql(
        "store",
        "create table account (id int primary key, balance int not null,"
        " msrepl_tran_version uuid not null default gen_random_uuid())",
    )
    [(version,)] = shop.sql("pub", "select msrepl_tran_version::text from account where id = 2")
    shop.sql("store", f"insert into account values (2, 100, '{version}')")
    part = ("--filter", "account=id = 2")
    shop.does("script", "store", *part, at=THREE)
    shop.does("unsubscribe", "store", at=THREE)
    assert shop.slots() == []

    shop.sql("store", shop.does("script", "store", *part, at=THREE))

    shop.sql("pub", "delete from account")
    shop.sql("pub", "insert into account values (1, 1), (2, 2)")
    shop.does("sync", at=THREE)
    assert rows(shop, "store") == [(2, 2)]
