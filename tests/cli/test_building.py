"""A topology built, changed and taken down by commands alone, as a person types them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.topology.test_topology import CATALOG
from twopc.server import Server

HERE = ("pub", "distribution")
THREE = (*HERE, "store")
NODES = ("pub", "distribution", "store", "desk")


class Shop:
    """Databases of a server that somebody else runs, and commands for some of them."""

    def __init__(self, server: Server, twopc: Any) -> None:
        self.twopc = twopc
        self.dsns = {name: server.superuser_dsn(name) for name in NODES}

    def sql(self, node: str, statement: str) -> list[tuple[object, ...]]:
        """As psql would, at a node."""
        with psycopg.connect(self.dsns[node], autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def catalog(self) -> dict[str, set[object]]:
        """What is in each database."""
        return {name: {line for (line,) in self.sql(name, CATALOG)} for name in NODES}

    def does(self, *words: str, at: tuple[str, ...] = NODES) -> str:
        """Run a command that goes well; what it prints."""
        done = self.twopc(*words, *self.options(at))
        assert (done.returncode, "error" in done.stderr) == (0, False), (words, done)
        return done.stdout

    def refuses(self, code: int, text: str, *words: str, at: tuple[str, ...] = NODES) -> None:
        """Run one that does not, and changes nothing."""
        before = self.catalog()
        done = self.twopc(*words, *self.options(at))
        assert done.returncode == code, (words, done.stdout, done.stderr)
        assert text in done.stderr, (words, done.stderr)
        assert "Traceback" not in done.stderr, done.stderr
        assert self.catalog() == before, words

    def options(self, at: tuple[str, ...]) -> list[str]:
        """``--node`` options."""
        return [word for name in at for word in ("--node", f"{name}={self.dsns[name]}")]


@pytest.fixture
def shop(twopc: Any) -> Iterator[Shop]:
    """Nothing of ours is there."""
    with Server.start() as server:
        for name in NODES:
            server.create_database(name)
        made = Shop(server, twopc)
        made.sql("pub", "create table account (id int primary key, balance int not null)")
        made.sql("pub", "insert into account values (1, 100), (2, 100)")
        made.sql("pub", "create table note (id int primary key, text text)")
        made.sql(
            "pub",
            "create procedure double() language sql as 'update account set balance = balance * 2'",
        )
        yield made


def rows(shop: Shop, node: str) -> list[tuple[object, ...]]:
    """The accounts there."""
    return shop.sql(node, "select id, balance from account order by id")


def publishes(shop: Shop) -> None:
    """What can be published, once there is a Publisher."""
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
    """Nothing is left of them."""
    shop.refuses(4, "no node 'shelf'", "subscribe", "shelf", at=THREE)
    shop.refuses(4, "is the publisher, not", "subscribe", "pub", at=THREE)
    shop.refuses(4, "use 'automatic'", "subscribe", "store", "--sync", "some", at=THREE)
    shop.refuses(
        4, "note is not published", "subscribe", "store", "--filter", "note=id=1", at=THREE
    )
    bad = ("--filter", "account=id < 9", "--filter", "account=nothing = 1")
    shop.refuses(4, "nothing", "subscribe", "store", *bad, at=THREE)
    shop.refuses(
        4, "neither one of the numbers", "subscribe", "store", "--skip-errors", "x", at=THREE
    )
    shop.refuses(2, "write TABLE=", "subscribe", "store", "--filter", "account", at=THREE)
    shop.refuses(4, "holds nothing of ours", "sync")
    shop.refuses(4, "does not subscribe", "unsubscribe", "store", at=THREE)
    shop.sql("store", "create table account (id text primary key)")
    shop.refuses(4, "account", "subscribe", "store", at=THREE)
    shop.sql("store", "drop table account")


def subscribes(shop: Shop) -> None:
    """Two Subscribers, of either kind; what is in use stays."""
    assert "store: subscribes" in shop.does("subscribe", "store", at=THREE)
    said = ("--skip-errors", "20598", "--streams", "2", "--filter", "account=id < 3")
    assert "desk: subscribes, read only" in shop.does("subscribe", "desk", "--read-only", *said)
    shop.refuses(
        4, "subscribes already, sync tran (21058): `twopc unsubscribe store`", "subscribe", "store"
    )
    shop.refuses(4, "(14046): `twopc unsubscribe` desk", "unpublish", "account")
    shop.refuses(4, "still subscribe: `twopc unsubscribe desk`", "uninstall")
    shop.refuses(4, "is read only", "activate", "desk")


def changes_an_article(shop: Shop) -> None:
    """What was changed before travels as it did."""
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
    assert "msrepl.sp_msreplraiserror(20598" in shop.does(
        "article", "script", "account", "sp_scriptxupdproc"
    )
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
    """A table and a routine; a definition that stays; a copy made anew."""
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
    """Everything that can be published, subscribed, changed; each mistake on the way; and away again."""
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
