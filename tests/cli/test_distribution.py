"""Tests of distribution on the command line: agents as processes, and commands about them."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psycopg
import pytest

from tests.cli.in_process import twopc
from tests.cli.processes import running
from twopc.server import EmbeddedServer
from twopc.server.polling import wait_for
from twopc.sim import Topology

BALANCES = "select id, balance from account order by id"


class Shop:
    """A Publisher with two Subscribers, whose topology's process has ended."""

    def __init__(self, server: EmbeddedServer, dsns: dict[str, str]) -> None:
        self.server = server
        self.dsns = dsns

    def nodes(self, *names: str) -> list[str]:
        """Return the ``--node`` options of these nodes, or of all."""
        return [w for name in names or self.dsns for w in ("--node", f"{name}={self.dsns[name]}")]

    def rows(self, node: str, query: str) -> list[tuple[object, ...]]:
        """Return the rows of a query at a node."""
        with psycopg.connect(self.dsns[node]) as connection:
            return connection.execute(query.encode()).fetchall()

    def execute(self, node: str, statement: str) -> None:
        """Execute a statement at a node, as its administrator."""
        with psycopg.connect(self.dsns[node], autocommit=True) as connection:
            connection.execute(statement.encode())


@pytest.fixture
async def shop(server: EmbeddedServer, make_database: Callable[[], object]) -> Shop:
    dsns = {name: make_database().dsn for name in ("pub", "here", "there", "distribution")}
    async with Topology(
        subscribers=("here", "there"), dsns=dsns, name=f"shop{id(dsns)}", keep=True
    ) as topology:
        await topology.execute("pub", "create table account (id int primary key, balance int)")
        await topology.execute("pub", "insert into account values (1, 100), (2, 100)")
        await topology.publish("account")
        for name in ("here", "there"):
            await topology.subscribe(name)
        await topology.run("here", "update account set balance = 90 where id = 1")
    return Shop(server, dsns)


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Return a function that starts commands, which run until they are ended."""
    with ExitStack() as stack:
        yield lambda *words: stack.enter_context(running(*words))


def test_agents_run_by_themselves_and_end_when_asked(
    shop: Shop, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """Log reader and agents, as three processes, deliver a change; SIGTERM ends each normally."""
    processes = [
        start("agent", "log-reader", *shop.nodes("pub", "distribution")),
        start("agent", "distribution", "here", *shop.nodes("here", "distribution")),
        start(
            "agent", "distribution", "there", "--streams", "2", *shop.nodes("there", "distribution")
        ),
    ]

    # before it prints this, a process has begun nothing, and a signal ends it like any other
    said = [process.stderr.readline() for process in processes if process.stderr is not None]
    wait_for(
        lambda: shop.rows("there", BALANCES) == [(1, 90), (2, 100)],
        what="the change to arrive",
        timeout_s=60,
    )
    for process in processes:
        process.send_signal(signal.SIGTERM)
    ended = [process.communicate(timeout=30) for process in processes]

    assert [process.returncode for process in processes] == [0, 0, 0], ended
    assert said == [
        f"{who}: runs until Ctrl-C or SIGTERM\n"
        for who in ("log reader", "agent of here", "agent of there")
    ]
    assert "1 transactions, 1 commands" in ended[2][0]
    assert "0 transactions, 0 commands" in ended[1][0]  # its own change is not sent back


def test_status_browse_validate_and_tokens(shop: Shop) -> None:
    """`status`, `browse` and `tracer` show the transactions before and after their delivery."""
    posted = twopc("tracer", "post", *shop.nodes())
    read = twopc("agent", "log-reader", "--once", *shop.nodes("pub", "distribution"))
    before = twopc("status", *shop.nodes())
    browsed = twopc("browse", "--article", "account", *shop.nodes())
    synced = twopc("sync", *shop.nodes())
    after = json.loads(twopc("status", "--json", *shop.nodes()).stdout)
    tokens = twopc("tracer", "history", *shop.nodes())

    assert (posted.returncode, posted.stdout) == (0, "tracer token 1 posted\n")
    assert read.stdout.startswith("2 transactions, 2 commands, up to ")
    assert before.returncode == 0, before.stderr
    assert "agent of there: never started, subscription active" in before.stdout
    assert "2 transactions wait, the oldest for" in before.stdout
    assert "{VCALL sp_msupd_account (,90,'" in browsed.stdout
    assert "-- changes balance, msrepl_tran_version" in browsed.stdout
    assert "there: 2 transactions, 1 commands" in synced.stdout
    assert [agent["waiting_transactions"] for agent in after["agents"]] == [0, 0]
    assert tokens.stdout.count("tracer token 1 to ") == 2
    assert "Pending" not in tokens.stdout


def test_status_names_stale_articles(shop: Shop) -> None:
    """After an ALTER TABLE changes are refused: not a state of which an operator should hear from users."""
    for node in ("pub", "here", "there"):
        with psycopg.connect(shop.dsns[node], autocommit=True) as connection:
            connection.execute("alter table account add note text")
    stale = twopc("status", *shop.nodes())
    regenerated = twopc("regenerate", "account", *shop.nodes())
    after = twopc("status", *shop.nodes())

    named = [line.partition(":")[0] for line in stale.stdout.splitlines() if "regenerate" in line]
    assert stale.returncode == 6
    assert named == [f"public.account at {node}" for node in ("pub", "here", "there")]
    assert regenerated.returncode == 0, regenerated.stderr
    assert "regenerate" not in after.stdout


def test_clean_up(shop: Shop) -> None:
    """The clean-up removes what both Subscribers have received."""
    store = ("agent", "log-reader", "--once", *shop.nodes("pub", "distribution"))
    clean = ("agent", "clean-up", *shop.nodes("distribution"))
    twopc(*store)
    too_soon = twopc(*clean, "--once")
    twopc("sync", *shop.nodes())
    done = twopc(*clean, "--once")
    given_up = twopc(*clean, "--once", "--max-hours", "0")

    assert too_soon.stdout.startswith("Removed 0 replicated transactions")
    assert done.stdout.startswith(
        "Removed 1 replicated transactions consisting of 1 statements in "
    )
    assert "deactivated" not in given_up.stdout  # no transaction waits
    assert (done.returncode, given_up.returncode) == (0, 0), done.stderr


def test_a_row_that_differs_is_named_and_repaired(shop: Shop) -> None:
    """A row that differs is named, with exit code 1; after a repair it is the Publisher's."""
    shop.execute(
        "there",
        "set session_replication_role = replica; update account set balance = 5 where id = 2",
    )

    found = twopc("validate", "there", "--drive", *shop.nodes())
    repaired = twopc("validate", "there", "--drive", "--repair", *shop.nodes())
    again = twopc("validate", "--drive", *shop.nodes())

    assert found.returncode == 1, found.stderr
    assert "20574: Subscriber 'there' subscription to article 'account' failed" in found.stdout
    assert "changed (id = 2)" in found.stdout
    assert (repaired.returncode, again.returncode) == (0, 0), repaired.stdout
    assert shop.rows("there", BALANCES) == [(1, 90), (2, 100)]


def test_an_agent_that_cannot_go_on_says_why(shop: Shop) -> None:
    """An agent that fails names transaction, command, table and key, and can skip the command.

    Its exit code is 1, and that of `status` is 6.
    """
    shop.execute(
        "there", "set session_replication_role = replica; delete from account where id = 1"
    )
    twopc("agent", "log-reader", "--once", *shop.nodes("pub", "distribution"))
    there = shop.nodes("there", "distribution")

    failed = twopc("agent", "distribution", "there", "--once", *there)
    status = twopc("status", *shop.nodes())
    skipped = twopc(
        "agent", "distribution", "there", "--once", "--skip-errors", "20598:2627", *there
    )

    assert failed.returncode == 1
    assert "20598" in failed.stderr
    assert "table account, id = 1" in failed.stderr
    assert "{CALL sp_msupd_account (" in failed.stderr
    assert status.returncode == 6
    assert "agent of there: failed" in status.stdout
    assert skipped.returncode == 0, skipped.stderr
    assert "1 left out" in skipped.stdout


def test_mistakes_are_named(shop: Shop) -> None:
    """A mistake is reported with the object and a remedy, and exit code 4."""
    neither = twopc("agent", "log-reader", *shop.nodes("pub"))
    nobody = twopc("agent", "log-reader", *shop.nodes("here", "distribution"))
    missing = twopc("agent", "distribution", "there", *shop.nodes("here", "distribution"))
    wrong = twopc("agent", "distribution", "pub", *shop.nodes("pub", "distribution"))
    unknown = twopc("sync", "nowhere", *shop.nodes())

    assert [each.returncode for each in (neither, nobody, missing, wrong, unknown)] == [4] * 5
    assert "add --node distribution=DSN" in neither.stderr
    assert "it knows pub" in nobody.stderr
    assert "say where 'there' is: --node there=DSN" in missing.stderr
    assert "`twopc subscribe" in wrong.stderr
    assert "'nowhere' does not subscribe; Subscribers are here, there" in unknown.stderr
