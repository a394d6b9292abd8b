"""Tests of ``twopc merge`` from publishing to unpublishing, on databases without a setup."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from twopc.drivers.merge.neighbours import agent_role
from twopc.drivers.merge.tracking import owner_role
from twopc.names import table_roles
from twopc.server import EmbeddedServer

#: Counts our schema and roles in a database and on its server.
_LEFT = """
select (select count(*) from pg_namespace where nspname = 'msrepl')
     + (select count(*) from pg_roles where rolname = any (%s) or starts_with(rolname, %s))
"""
_DATABASES = {name: f"shop_{name}" for name in ("pub", "anna", "ben")}


def _left(dsns: dict[str, str], name: str) -> int:
    owner = owner_role(_DATABASES[name])
    agents = [agent_role(_DATABASES[name], other) for other in _DATABASES]
    with psycopg.connect(dsns[name]) as connection:
        [(count,)] = connection.execute(_LEFT, ([owner, *agents], table_roles(owner)))
    return int(count)


@pytest.fixture
def databases(server: EmbeddedServer) -> Iterator[dict[str, str]]:
    """Connection strings of three databases: pub has two tables, the others nothing."""
    server.create_database(*_DATABASES.values())
    dsns = {name: server.superuser_dsn(database) for name, database in _DATABASES.items()}
    with psycopg.connect(dsns["pub"]) as connection:
        connection.execute("create table customer (id int primary key, phone text, credit int)")
        connection.execute("insert into customer values (1, '1', 10)")
        connection.execute("create table note (body text)")
    yield dsns
    server.drop_database(*_DATABASES.values())


def _nodes(dsns: dict[str, str], *names: str) -> list[str]:
    return [word for name in names for word in ("--node", f"{name}={dsns[name]}")]


def _execute(dsn: str, query: str) -> Any:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(query.encode())
        return cursor.fetchall() if cursor.description else None


def test_from_nothing_and_back(twopc, databases, monkeypatch) -> None:
    """A table is published, subscribed and merged, with interactive conflicts; nothing is left."""
    ran = twopc("merge", "publish", "customer", "--tracking", "column", *_nodes(databases, "pub"))
    assert ran.stdout == "public.customer: published; next: twopc merge subscribe SUBSCRIBER\n"
    assert _left(databases, "pub") == 3
    both = _nodes(databases, "pub", "anna")
    ran = twopc("merge", "subscribe", "anna", "--type", "server", "--priority", "75", *both)
    assert ran.stdout.startswith("anna: subscribes, priority 75; "), ran.stderr
    every = _nodes(databases, "pub", "anna", "ben")
    assert twopc("merge", "subscribe", "ben", *every).returncode == 0

    _execute(databases["anna"], "update customer set phone = '2'")
    _execute(databases["pub"], "update customer set credit = 20")
    ran = twopc("merge", "sync", "anna", "--only", "upload", *every)
    assert ran.stdout == "anna: uploaded 1, downloaded 0\n", ran.stderr
    assert _execute(databases["anna"], "select phone, credit from customer") == [("2", 10)]
    ran = twopc("merge", "sync", "anna", "--validate", "2", *every)
    assert ran.stdout == "anna: uploaded 0, downloaded 1\nanna: customer: 1 row is the same\n"

    _execute(databases["ben"], "update customer set phone = '3'")
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join([*_NO_ANSWERS, '{"phone": "4"}\n'])))
    ran = twopc("merge", "sync", "ben", "--interactive", "--json", *every)
    assert "held at pub, by pub (priority 100): id=1, phone=2, credit=20" in ran.stderr
    assert "incoming from ben (priority 0): id=1, phone=3, credit=10" in ran.stderr
    for problem in _NO_ANSWERS.values():
        assert problem in ran.stderr
    assert json.loads(ran.stdout)["ben"]["conflicts"] == 1
    assert _execute(databases["ben"], "select phone, credit from customer") == [("4", 20)]

    for name in ("anna", "ben"):
        ran = twopc("merge", "unsubscribe", name, *_nodes(databases, "pub", name))
        assert ran.stdout == f"{name}: does not subscribe any more\n", ran.stderr
    ran = twopc("merge", "unpublish", "customer", *_nodes(databases, "pub"))
    assert ran.stdout == "public.customer: not published any more; nothing of ours is left in pub\n"
    assert [_left(databases, name) for name in databases] == [0, 0, 0]
    assert _execute(databases["ben"], "select phone, credit from customer") == [("4", 20)]


#: Invalid answers to a question about a conflict, and why the question is repeated.
_NO_ANSWERS = {
    "x": "x: no such answer",
    '{"fax": "4"}': "customer has no column 'fax'",
    '{"phone": ' + "[" * 100_000: "it is nested too deeply",
    '{"phone": "a\\u0000b"}': "a text holds a NUL character",
    '{"phone": "\\ud800"}': "half of a surrogate pair",
    '{"credit": NaN}': 'NaN is no JSON: write it as a text, "NaN"',
    '{"credit": -Infinity}': "-Infinity is no JSON",
}


def test_rows_that_differ_fail_a_session_that_validates(twopc, databases) -> None:
    """A session whose validation finds a difference fails, although its changes have arrived."""
    twopc("merge", "publish", "customer", *_nodes(databases, "pub"))
    both = _nodes(databases, "pub", "anna")
    twopc("merge", "subscribe", "anna", *both)
    _execute(
        databases["anna"],
        "set session_replication_role = replica; insert into customer values (2, 'x', 0)",
    )
    _execute(databases["anna"], "insert into customer values (3, 'y', 0)")
    ran = twopc("merge", "sync", "--validate", "1", *both)
    assert (ran.returncode, "3 rows, 2 at the Publisher" in ran.stdout) == (1, True), ran.stdout
    assert _execute(databases["pub"], "select id from customer order by id") == [(1,), (3,)]
    for words in (("unsubscribe", "anna", *both), ("unpublish", "customer", *both[:2])):
        assert twopc("merge", *words).returncode == 0


def test_what_is_refused_changes_nothing(twopc, databases) -> None:
    """A refused command names what is wrong, with a number or a command, and changes nothing."""
    for words, text in (
        (("publish", "note", *_nodes(databases, "pub")), "primary key"),
        (("publish", "customer", "--resolver", "additive(x)", *_nodes(databases, "pub")), "21303"),
        (("publish", "customer", *_nodes(databases, "pub", "anna")), "`twopc merge publish`"),
        (("subscribe", "anna", *_nodes(databases, "pub", "anna")), "`twopc merge publish`"),
        (("subscribe", "anna", *_nodes(databases, "pub")), "--node anna=DSN"),
    ):
        ran = twopc("merge", *words)
        assert (ran.returncode != 0, text in " ".join(ran.stderr.split())) == (True, True), words
    assert [_left(databases, name) for name in databases] == [0, 0, 0]
    twopc("merge", "publish", "customer", *_nodes(databases, "pub"))
    both = _nodes(databases, "pub", "anna")
    for words, text in (
        (("--priority", "10"), "a client subscription has no priority (20044)"),
        (("--type", "server", "--priority", "100"), "(20049, 20088)"),
        (("--at", "depot"), "no node 'depot'"),
    ):
        ran = twopc("merge", "subscribe", "anna", *words, *both)
        assert (ran.returncode != 0, text in " ".join(ran.stderr.split())) == (True, True), words
    assert _left(databases, "anna") == 0
    assert twopc("merge", "unpublish", "customer", *_nodes(databases, "pub")).returncode == 0


def test_columns(twopc, databases) -> None:
    """Columns are changed at the Publisher, and the next session changes them at the Subscriber."""
    pub, both = _nodes(databases, "pub"), _nodes(databases, "pub", "anna")
    twopc("merge", "publish", "customer", *pub)
    twopc("merge", "subscribe", "anna", *both)
    for words, text in (
        (("add", "customer", "mail", "varchar(9)", "--default", "none"), "mail: added, character varying(9); schema change 1"),
        (("widen", "customer", "mail", "text"), "mail: widened to text; schema change 2"),
        (("drop", "customer", "phone"), "phone: dropped; schema change 3"),
    ):  # fmt: skip
        ran = twopc("merge", "column", *words, *both)
        assert (ran.returncode, ran.stdout) == (0, f"customer.{text}; next: twopc merge sync\n")
    ran = twopc("merge", "column", "drop", "customer", "id", *both)
    assert ran.returncode != 0
    assert "belongs to the primary key" in ran.stderr
    assert twopc("merge", "sync", *both).returncode == 0
    assert _execute(databases["anna"], "select id, credit, mail from customer") == [(1, 10, "none")]
    twopc("merge", "unsubscribe", "anna", *both)
    twopc("merge", "unpublish", "customer", *pub)
    assert [_left(databases, name) for name in ("pub", "anna")] == [0, 0]
