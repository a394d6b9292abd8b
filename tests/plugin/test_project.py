"""Tests of the plugin in a user's project: every fixture, mark and option, as pytest runs them."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from tests.plugin.running import Project

pytest_plugins = ["pytester"]

#: The example of the manual, verbatim.
TEN_LINES = """
    import pytest

    def test_stale_copy_is_refused(twopc):
        alice, bob = twopc.session("sub1"), twopc.session("sub2")
        alice.execute("update account set balance = 90 where id = 1")
        step = bob.start("update account set balance = 80 where id = 1")   # returns at once
        assert step.blocked_by(alice)              # waits for *done or provably blocked*; no sleep, no poll in the test
        alice.commit()
        with pytest.raises(twopc.Conflict) as caught:
            step.result()
        assert caught.value.kind == "version_mismatch"
        bob.rollback()
        twopc.settle()
        twopc.assert_converged(); twopc.assert_atomic(); twopc.assert_nothing_in_doubt()
"""


def test_what_a_project_does_first(project: Project) -> None:
    """The manual's example passes, each test has the initial rows, and warnings are errors."""
    project.test(
        TEN_LINES
        + """
    names = set()

    @pytest.mark.parametrize("time", range(3))
    def test_rows_are_as_new(twopc, time):
        names.add(twopc.name)
        assert twopc.node("sub2").rows("account")[0] == {"id": 1, "balance": 100}
        session = twopc.session("sub1")
        session.execute("update account set balance = 1")
        session.commit()

    def test_the_same_databases(twopc):
        assert names == {twopc.name}

    @pytest.mark.twopc(reset="clone")
    def test_databases_that_nobody_has_used(twopc):
        first.append(twopc.name)

    @pytest.mark.twopc(reset="clone")
    def test_and_again(twopc):
        assert first != [twopc.name]

    first = []

    @pytest.mark.twopc(subscribers=1, isolation="serializable", load="create table t (id int primary key)")
    def test_a_mark(twopc):
        assert twopc.subscribers == ("sub1",)
        assert twopc.node("sub1").rows("t") == []
        level = twopc.session("sub1").execute("show transaction_isolation").scalar()
        assert level == "serializable"

    def test_the_factory(twopc_factory):
        one, other = twopc_factory(subscribers=["north"]), twopc_factory()
        assert one.subscribers == ("north",)
        assert one.name != other.name
        one.session("north").execute("select 1")

    def test_a_seed(twopc):
        assert twopc.seed == 5

    @pytest.mark.twopc(seed=6)
    def test_a_seed_of_its_own(twopc):
        assert twopc.seed == 6

    def test_no_topology_no_server_needed():
        pass
    """
    )
    project.run("-q", "--twopc-seed", "5", "--strict-markers").assert_outcomes(passed=12)


def test_what_is_loaded(project: Project) -> None:
    """A template may be a file, a function (also `async`), or a name; errors in it are reported."""
    project.pytester.makefile(".sql", schema="create table from_file (id int primary key);")
    project.pytester.makepyfile(
        loads="""
        def by_name(topology):
            loaded.append(topology.name)

        loaded = []

        async def makes(topology):
            await topology.execute("pub", "create table from_function (id int primary key)")
            await topology.publish("from_function", row_filter="id > 0")
        """
    )
    project.pytester.makeconftest(
        """
        from pathlib import Path
        import pytest
        import loads

        @pytest.fixture(scope="session")
        def twopc_template():
            return [Path(__file__).with_name("schema.sql"), loads.makes, "loads:by_name"]
        """
    )
    project.test(
        """
        import loads
        import pytest

        def test_all(twopc):
            assert twopc.node("sub1").rows("from_file") == []
            assert twopc.node("sub1").rows("from_function") == []
            assert loads.loaded == [twopc.name]

        @pytest.mark.twopc(load=["loads:nothing"])
        def test_a_name_that_is_not_there(twopc):
            pass

        @pytest.mark.twopc(load=["create table t (id int primary ke)"])
        def test_sql_that_is_none(twopc):
            pass
        """
    )
    result = project.run("-q")
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines(
        ["*load='loads:nothing'*has no attribute 'nothing'", "*syntax error*"]
    )


def test_what_a_failure_shows(project: Project) -> None:
    """A failure shows rows as a table, a timeline, and the command to reproduce it.

    The JUnit report contains gids and seed.
    """
    project.test(
        """
        def test_fails(twopc):
            alice, bob = twopc.session("sub1", name="alice"), twopc.session("sub2", name="bob")
            alice.execute("update account set balance = 90 where id = 1")
            step = bob.start("update account set balance = 80 where id = 1")
            assert step.blocked_by(alice)
            alice.commit()
            assert twopc.node("pub").rows("account") == twopc.node("sub2").rows("account")

        def test_in_an_order(twopc):
            def check(run):
                assert run.text == "a0 b0", "not this one"
            twopc.run_orders({"a": [int], "b": [int]}, check=check)

        def test_not_converged(twopc):
            twopc.node("sub1").query(
                "begin; set local session_replication_role = replica; delete from account; commit")
            twopc.assert_converged()

        def test_without(twopc):
            assert [1] == [2]
        """
    )
    result = project.run("--junit-xml=junit.xml", "--twopc-seed=3")
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(
        [
            "E       assert account at pub is not account at sub2",
            "E            id  balance",
            "E         -  1   90",
            "E         +  1   100",
            "E            2   100",
            "*- twopc timeline -*",
            "*alice at sub1 *bob at sub2*",
            "*waits for alice (alice.1) at*",
            "*- twopc diagram -*",
            "*pub (Publisher)*",
            "*- twopc reproduce -*",
            "pytest test_it.py::test_fails --twopc-seed 3",
            "E       AssertionError: not this one",
            "E       in the order: b0 a0",
            "*- twopc timeline -*",
            "*b0: int()*",
            "pytest test_it.py::test_in_an_order --twopc-orders 'b0 a0' --twopc-seed 3",
            "E       AssertionError: not converged:",
            "E         account id=1 at sub1 is missing",
            "E         changes that are not delivered yet differ too: deliver by sync() or settle()",
        ]
    )
    shown = result.stdout.str()
    assert "site-packages/anyio" not in shown  # the plugin's threads are hidden
    assert "sim/testing" not in shown
    suite = ElementTree.parse(project.pytester.path / "junit.xml")
    properties = {p.get("name"): p.get("value") for p in suite.iter("property")}
    assert properties["twopc_seed"] == "3"
    assert re.fullmatch(r"(twopc:\S+ ?)+", str(properties["twopc_gids"]))
    again = project.run("test_it.py::test_in_an_order", "--twopc-orders", "a0 b0")
    again.assert_outcomes(passed=1)


def test_what_a_failure_of_a_merge_shows(project: Project) -> None:
    """A failing test shows what its sessions did at nodes that merge, and the command to reproduce it."""
    project.test(
        """
        import pytest

        @pytest.fixture(scope="session")
        def twopc_merge_template():
            return ["create table customer (id int primary key, credit int)"]

        def test_fails(twopc_merge):
            anna = twopc_merge.session("sub1", name="anna")
            anna.execute("insert into customer values (1, 1)")
            anna.commit()
            twopc_merge.assert_converged()
        """
    )
    result = project.run("--junit-xml=junit.xml", "--twopc-seed=3")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*- twopc timeline -*",
            "*anna at sub1*",
            "*- twopc reproduce -*",
            "pytest test_it.py::test_fails --twopc-seed 3",
        ]
    )


def test_what_a_test_leaves_prepared(project: Project) -> None:
    """A test that leaves prepared transactions fails, naming them; the next is unaffected."""
    project.test(
        """
        import psycopg

        def leave(twopc, gid):
            with psycopg.connect(twopc.dsn("pub"), autocommit=True) as connection:
                connection.execute("begin")
                connection.execute("update account set balance = 1")
                connection.execute(f"prepare transaction '{gid}'")

        def test_ours(twopc):
            leave(twopc, f"twopc:{twopc.name}:7:7:pub")

        def test_mine(twopc):
            leave(twopc, "mine")

        def test_both_fail(twopc):
            leave(twopc, "also mine")
            assert False, "for another reason"

        def test_the_next(twopc):
            assert twopc.node("pub").rows("account")[0]["balance"] == 100
            assert twopc.node("pub").query("select gid from pg_prepared_xacts") == []
        """
    )
    result = project.run("-v")
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(
        [
            "*test_the_next PASSED*",
            "the test left prepared transactions, which are rolled back now:",
            "  twopc:*:7:7:pub at pub",
            "  mine at pub",
            "*for another reason*",
            "E       the test left prepared transactions*",
            "E         also mine at pub",
        ]
    )


def test_what_a_shared_topology_has_left(project: Project) -> None:
    """Only the test that leaves a prepared transaction fails for it; failures show a timeline."""
    project.test(
        """
        from twopc.sim.testing import topology

        shared = topology(scope="module", reset="none", subscribers=1)

        def test_leaves(shared):
            shared.node("pub").query("begin; select 1; prepare transaction 'mine'")

        def test_fails(shared):
            shared.session("sub1").execute("select 1")
            assert False

        def test_uses_it_not(): pass
        """
    )
    result = project.run("-W", "default::pytest.PytestWarning", "-v")
    result.assert_outcomes(failed=2, passed=1, warnings=1)
    result.stdout.fnmatch_lines(["  mine at pub", "*- twopc timeline -*", "*sub1.1: select 1*"])


def test_fixtures_of_ones_own(project: Project) -> None:
    """A fixture's scope decides how long databases are kept; `reset` what happens between tests."""
    project.test(
        """
        import pytest
        from twopc.sim.testing import topology

        kept = topology(scope="module")
        shared = topology(scope="module", reset="none", subscribers=1)
        fresh = topology(reset="clone", subscribers=1)
        small = topology(subscribers=1, isolation="repeatable read")
        names = {}

        def change(twopc):
            session = twopc.session("sub1")
            session.execute("update account set balance = 1 where id = 1")
            session.commit()

        def balance(twopc):
            return twopc.node("pub").rows("account")[0]["balance"]

        @pytest.mark.parametrize("time", (1, 2))
        def test_kept(kept, time):
            assert names.setdefault("kept", kept.name) == kept.name
            assert balance(kept) == 100
            change(kept)

        @pytest.fixture(scope="module")
        def uses(shared):
            change(shared)
            return shared

        def test_shared(uses, shared):
            assert balance(shared) == 1

        def test_shared_still(shared):
            assert balance(shared) == 1

        @pytest.mark.parametrize("time", (1, 2))
        def test_fresh(fresh, time):
            assert fresh.name not in names.values()
            names[time] = fresh.name
            assert balance(fresh) == 100

        def test_the_name_is_still_that_of_the_function(fresh):
            import twopc.sim.testing
            assert twopc.sim.testing.topology is topology

        def test_small(small):
            assert small.session("sub1").execute("show transaction_isolation").scalar() == "repeatable read"
        """
    )
    result = project.run("-q", "-W", "default::pytest.PytestWarning")
    result.assert_outcomes(passed=8, warnings=1)
    result.stdout.fnmatch_lines(["*NotResetWarning: the tests of a module share a topology*"])
