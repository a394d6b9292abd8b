"""Tests of any client in the plugin: an unmodified application writes at a Subscriber."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
import pytest

from tests.plugin.running import Project
from twopc.errors import ConfigurationError
from twopc.sim.testing.bench import Bench, TopologyRequest
from twopc.sim.testing.blocking_bench import TestTopology

pytest_plugins = ["pytester"]

GIVE = "update account set balance = balance + 1 where id = 1"
BANK = TopologyRequest(
    load=(
        "create table account (id int primary key, balance int not null)",
        "insert into account values (1, 100)",
    ),
    any_client=True,
)


def balances(bank: TestTopology) -> list[int]:
    """Return the account's balance at every node."""
    nodes = (bank.publisher, *bank.subscribers)
    return [int(bank.node(name).rows("account")[0]["balance"]) for name in nodes]


def test_the_same_databases_for_the_next_test(bench: Bench) -> None:
    """The next test has the initial rows in the same databases, even if connections stay open."""
    wanted, names = replace(BANK, group="the same"), set()
    connections = []
    for _ in range(3):
        bed = bench.open(wanted, "a test")
        bank = TestTopology(bench, bed)
        names.add(bank.name)
        connections.append(psycopg.connect(bank.dsn("sub1")))
        for connection in connections:
            connection.execute(GIVE)
            connection.commit()
            bank.settle()  # otherwise the copy of the next connection is stale
        assert balances(bank) == [100 + len(connections)] * 3
        bank.assert_atomic()
        assert bench.close_bed(bed, wanted, "truncate") == []
    for connection in connections:
        connection.close()
    assert len(names) == 1


def test_an_application_waits_for_another_across_sites(
    make_bank: Callable[..., TestTopology],
) -> None:
    """A wait between applications is reported with their application names, also across sites."""
    bank = make_bank(load=BANK.load, any_client=True)
    with (
        psycopg.connect(bank.dsn("sub1", application_name="north")) as north,
        psycopg.connect(bank.dsn("sub2", application_name="south")) as south,
        ThreadPoolExecutor(1) as pool,
    ):
        north.execute(GIVE)
        work = pool.submit(south.execute, GIVE)
        assert bank.watch("sub2", application_name="south", work=work).blocked_by("north")
        north.commit()
        with pytest.raises(psycopg.errors.SerializationFailure):
            work.result()
    bank.settle()
    assert balances(bank) == [101] * 3


def test_functions_that_write_at_subscribers(make_bank: Callable[..., TestTopology]) -> None:
    """In every order, the second writer, whose copy is stale, is refused as by any database."""
    bank = make_bank(load=BANK.load, any_client=True)
    refused = []

    def give(node: str) -> Callable[[], None]:
        def step() -> None:
            with psycopg.connect(bank.dsn(node)) as connection:
                connection.execute(GIVE)

        return step

    bank.run_orders(
        {"a": [give("sub1")], "b": [give("sub2")]},
        check=lambda run: refused.append([getattr(e, "sqlstate", e) for e in run.errors.values()]),
    )
    assert refused == [["40001"], ["40001"]]


def test_tables_of_the_test_itself(make_bank: Callable[..., TestTopology]) -> None:
    """Any client is allowed as soon as the Subscriber subscribes to a table of the test."""
    bank = make_bank(load=(), any_client=("sub2",))
    bank.create(*(text for text in BANK.load if isinstance(text, str)))
    with psycopg.connect(bank.dsn("sub2")) as connection:
        connection.execute(GIVE)
    bank.settle()
    assert balances(bank) == [101] * 3
    with psycopg.connect(bank.dsn("sub1")) as connection, pytest.raises(psycopg.Error):
        connection.execute(GIVE)


def test_a_subscriber_that_there_is_not(make_bank: Callable[..., TestTopology]) -> None:
    with pytest.raises(ConfigurationError, match="'sub9'; Subscribers are sub1, sub2"):
        make_bank(any_client=("sub9",))


def test_a_transaction_that_was_rolled_back(bench: Bench) -> None:
    """The link of a transaction that was rolled back is ended at once: databases are reused."""
    wanted, names = replace(BANK, group="rolled back"), set()
    for ends in ("rolls back", "is refused", "leaves", "rolls back"):
        bed = bench.open(wanted, "a test")
        bank = TestTopology(bench, bed)
        names.add(bank.name)
        connection = psycopg.connect(bank.dsn("sub1"))
        if ends == "is refused":
            bank.node("pub").query("update account set balance = 1")
            with pytest.raises(psycopg.errors.SerializationFailure):
                connection.execute(GIVE)
        else:
            connection.execute(GIVE)
        if ends == "leaves":
            connection.close()
        else:
            connection.rollback()
        assert bench.close_bed(bed, wanted, "truncate") == []
        connection.close()
    assert len(names) == 1


def test_a_transaction_that_is_left_open(project: Project) -> None:
    """After a transaction was left open the next test has new databases; its session is named."""
    project.test(
        """
        import psycopg
        import pytest

        left = []

        @pytest.mark.twopc(any_client=True)
        @pytest.mark.parametrize("time", (1, 2))
        def test_it(twopc, time):
            assert twopc.node("pub").rows("account")[0]["balance"] == 100
            left.append(psycopg.connect(twopc.dsn("sub1", application_name="leaky")))
            left[-1].execute("update account set balance = 1 where id = 1")
            if time == 2:
                left[-1].rollback()

        def test_close():
            for each in left:
                each.close()
        """
    )
    result = project.run("-q")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        [
            "new databases after test_it?1?, which takes seconds: session * (leaky) is in a transaction at sub1: *"
        ]
    )
    assert "after test_it[2]" not in result.stdout.str()


def test_mark_fixture_option_and_ini_file(project: Project) -> None:
    """The nearest setting of `any_client` holds, and a string in place of a list is refused."""
    project.test(
        """
        import psycopg
        import pytest
        from twopc.sim.testing import topology

        def writes(twopc):
            with psycopg.connect(twopc.dsn("sub1")) as connection:
                connection.execute("update account set balance = 1 where id = 1")

        named = topology(any_client=["sub2"])

        def test_default(twopc):
            writes(twopc)

        @pytest.mark.twopc(any_client=False)
        def test_mark(twopc):
            with pytest.raises(psycopg.Error):
                writes(twopc)

        def test_fixture(named):
            with pytest.raises(psycopg.Error):
                writes(named)

        @pytest.mark.twopc(any_client="sub1")
        def test_text(twopc): pass
        """
    )
    result = project.run("-q", "-o", "twopc_any_client=true")
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*any_client='sub1': True, or a list of Subscribers: ?'sub1'?"])
    project.run("-q", "-k", "default", "--twopc-any-client").assert_outcomes(passed=1)
    refused = project.run("-q", "-k", "default")
    refused.assert_outcomes(failed=1)
    refused.stdout.fnmatch_lines(["*In tests: @pytest.mark.twopc(any_client=True)*"])
