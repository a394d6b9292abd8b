"""Tests of an application's functions in every order, and of Hypothesis' strategies for orders."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.stateful import rule
from hypothesis.strategies import integers

from twopc.errors import ConfigurationError
from twopc.sim.pytest_plugin.sections import timeline
from twopc.sim.testing.blocking_bench import TestTopology
from twopc.sim.testing.machine import TopologyMachine
from twopc.sim.testing.orders import OrderRun
from twopc.sim.testing.strategies import isolation, orders
from twopc.sim.topology.checkpoint import RewindError


class Till:
    """An ordinary application: it reads a balance, and later writes the new one."""

    def __init__(self, dsn: str, name: str, *, careful: bool = False) -> None:
        self.dsn, self.name = dsn, name
        self.lock = " for update" if careful else ""
        self.steps: Sequence[Callable[[], Any]] = (self.read, self.write)
        self.connection: psycopg.Connection[Any]
        self.balance = 0

    def read(self) -> int:
        """Read the balance, and return it."""
        self.connection = psycopg.connect(self.dsn, application_name=self.name)
        row = self.connection.execute(
            f"select balance from account where id = 1{self.lock}"
        ).fetchone()
        assert row is not None
        self.balance = row[0]
        return self.balance

    def write(self) -> None:
        """Write ten less than the balance that was read."""
        with self.connection as connection:
            connection.execute("update account set balance = %s where id = 1", (self.balance - 10,))


def tills(bank: TestTopology, **options: Any) -> dict[str, Sequence[Callable[[], Any]]]:
    """Return the steps of two tills."""
    return {name: Till(bank.dsn("pub"), name, **options).steps for name in ("a", "b")}


def balance(bank: TestTopology) -> int:
    """Return the first account's balance."""
    return int(bank.node("pub").rows("account")[0]["balance"])


def test_every_order_is_played_from_the_same_rows(bank: TestTopology) -> None:
    """All six orders begin with the same rows, and an update is lost in each interleaved one."""
    found: dict[str, int] = {}

    def check(run: OrderRun) -> None:
        found[run.text] = balance(bank)
        assert set(run.results) == {"a0", "a1", "b0", "b1"}

    played = bank.run_orders(tills(bank), check=check)
    assert found == {
        "a0 a1 b0 b1": 80,
        "a0 b0 a1 b1": 90,
        "a0 b0 b1 a1": 90,
        "b0 a0 a1 b1": 90,
        "b0 a0 b1 a1": 90,
        "b0 b1 a0 a1": 80,
    }
    assert (len(played), played.total, played.infeasible) == (6, 6, 0)
    assert played[0].results["a0"] == 100
    assert [each.text for each in played[:2]] == ["a0 a1 b0 b1", "a0 b0 a1 b1"]


def test_a_function_that_waits_lets_others_go_on(bank: TestTopology) -> None:
    """With a row lock no update is lost; orders that need a blocked function are infeasible."""
    waited = set()

    def check(run: OrderRun) -> None:
        assert balance(bank) == 80
        waited.update(run.waits.items())

    played = bank.run_orders(tills(bank, careful=True), check=check)
    assert waited == {("a0", "b"), ("b0", "a")}
    assert (len(played), played.infeasible) == (4, 2)
    assert repr(played) == "<4 of 6 orders played, 2 cannot happen>"


def test_a_function_that_takes_long_is_awaited_once(
    bank: TestTopology, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function that takes long is awaited once, although its wait is looked at repeatedly."""
    looks, begun, wrapped = 0, threading.Event(), 0
    observer, wrap_future = bank.bed.surroundings.observer, asyncio.wrap_future
    look = observer.look

    async def seen(*clients: Any) -> Any:
        nonlocal looks
        looks += 1
        if looks == 5:
            begun.set()
        return await look(*clients)

    def counted(*arguments: Any, **options: Any) -> asyncio.Future[Any]:
        nonlocal wrapped
        wrapped += 1
        return wrap_future(*arguments, **options)

    monkeypatch.setattr(observer, "look", seen)
    monkeypatch.setattr(asyncio, "wrap_future", counted)
    bank.run_orders({"a": [lambda: begun.wait(60)]})
    assert begun.is_set()
    assert wrapped == 1


def test_constraints_and_limit(bank: TestTopology) -> None:
    """The orders can be restricted by `before` and `limit`, as in a scenario."""
    texts = []
    played = bank.run_orders(
        tills(bank),
        before=["a0 < b0", "b0 < a1"],
        limit=1,
        check=lambda run: texts.append(run.text),
    )
    assert texts == ["a0 b0 a1 b1"]
    assert played.total == 2
    with pytest.raises(ConfigurationError, match="write it as 'a0 < b1'"):
        bank.run_orders(tills(bank), before=["a0 b0"])
    with pytest.raises(ConfigurationError, match="no step 'c0'; steps are a0, a1, b0, b1"):
        bank.run_orders(tills(bank), before=["c0 < b0"])


def test_the_failing_order_is_named(bank: TestTopology) -> None:
    """The error names the failing order, which is kept for the command that plays it again."""

    def check(_: OrderRun) -> None:
        assert balance(bank) == 80

    with pytest.raises(AssertionError) as caught:
        bank.run_orders(tills(bank), check=check)
    assert caught.value.__notes__ == ["in the order: a0 b0 a1 b1"]
    assert bank.bed.order == "a0 b0 a1 b1"


def test_the_history_of_the_failing_order(bank: TestTopology) -> None:
    """The failing order's history shows where each sequence works, and its waits and errors."""

    def check(run: OrderRun) -> None:
        assert not run.waits

    with pytest.raises(AssertionError):
        bank.run_orders(tills(bank, careful=True), check=check)
    told = [(record.kind, record.step) for record in bank.history if record.session]
    # a1's commit releases b0; which end is recorded first is not determined
    assert sorted(told[5:7]) == [("ok", "a1"), ("ok", "b0")]
    assert told[:5] + told[7:] == [
        ("invoke", "a0"), ("ok", "a0"),
        ("invoke", "b0"), ("blocked", "b0"),
        ("invoke", "a1"),
        ("invoke", "b1"), ("ok", "b1"),
    ]  # fmt: skip
    (wait,) = (record.wait for record in bank.history if record.kind == "blocked")
    assert wait is not None
    assert (wait["session"], wait["step"], wait["node"]) == ("a", "a0", "pub")
    assert (bank.history[1].data or {})["sessions"] == {"a": "pub", "b": "pub"}
    shown = timeline(bank.history)
    assert "a at pub" in shown
    assert "b0: Till.read()" in shown
    assert "waits for a (a0) at pub" in shown


def test_what_refuses_a_function(bank: TestTopology) -> None:
    """The error of a function is recorded: the server's message and SQLSTATE, or the exception."""

    def divides() -> None:
        with psycopg.connect(bank.dsn("pub")) as connection:
            connection.execute("select 1 / 0")

    def fails() -> None:
        raise ValueError("no money")

    bank.run_orders({"a": [divides], "b": [fails]}, before=["a0 < b0"], check=lambda _: None)
    told = [(each.sqlstate, each.message) for each in bank.history if each.kind == "error"]
    assert told == [("22012", "division by zero"), ("", "no money")]
    assert "no money" in bank.explain()


def test_one_order_or_a_sample(bank: TestTopology) -> None:
    """The option selects one order, a sample, or all orders."""
    bank.orders = "b0 a0 b1 a1"
    assert [run.text for run in bank.run_orders(tills(bank))] == ["b0 a0 b1 a1"]
    bank.orders, bank.seed = "sample:2", 7
    sampled = [run.text for run in bank.run_orders(tills(bank))]
    assert len(sampled) == 2
    assert sampled == [run.text for run in bank.run_orders(tills(bank))]
    bank.orders = "all"
    assert len(bank.run_orders(tills(bank), limit=1)) == 6
    bank.orders = "x0 y0"
    with pytest.raises(ConfigurationError, match="names other steps than there are: a0 a1 b0 b1"):
        bank.run_orders(tills(bank))


def test_what_a_function_raises(bank: TestTopology) -> None:
    """An exception ends its sequence, and fails the test if there is no `check` to examine it."""

    def fails() -> None:
        raise ValueError("no money")

    never: list[str] = []
    sequences = {"a": [fails, lambda: never.append("called")], "b": [lambda: "fine"]}
    with pytest.raises(ValueError, match="no money"):
        bank.run_orders(sequences)
    seen: list[OrderRun] = []
    bank.run_orders(sequences, check=seen.append)
    assert [list(run.errors) for run in seen] == [["a0"]] * 3
    assert all(run.results == {"b0": "fine"} for run in seen)
    assert never == []

    def wrong() -> None:
        raise AssertionError("says the function")

    with pytest.raises(AssertionError, match="says the function"):
        bank.run_orders({"a": [wrong]}, check=seen.append)


def test_functions_may_use_sessions(bank: TestTopology) -> None:
    """A function that takes an argument gets the topology, whose sessions end with the order."""
    refused = []

    def write(node: str) -> Callable[[TestTopology], None]:
        def step(twopc: TestTopology) -> None:
            session = twopc.session(node)
            session.execute("update account set balance = balance + 1 where id = 1")
            session.commit()

        return step

    def check(run: OrderRun) -> None:
        refused.append([type(error).__name__ for error in run.errors.values()])

    bank.run_orders({"a": [write("sub1")], "b": [write("sub2")]}, check=check)
    assert refused == [["ConflictError"]] * 2
    bank.settle()
    bank.assert_converged()


def test_a_transaction_that_never_ends(make_bank: Callable[..., TestTopology]) -> None:
    """A function that waits for a transaction that never ends fails the test without a hang."""
    bank = make_bank(lock_timeout_ms=60_000)
    left = psycopg.connect(bank.dsn("pub", application_name="till"))
    bank.bed.surroundings.timeout_s = 5

    def takes() -> None:
        left.execute("update account set balance = 1 where id = 1")

    def wants() -> None:
        with psycopg.connect(bank.dsn("pub")) as connection:
            connection.execute("update account set balance = 2 where id = 1")

    with pytest.raises(
        AssertionError, match=r"b0 has not ended .* waits at pub for till \(a row of"
    ):
        bank.run_orders({"a": [takes], "b": [wants]})
    left.close()


def test_a_transaction_that_is_left_open(bank: TestTopology) -> None:
    """Rows cannot be reset while a transaction is open; the error names session and order."""
    with psycopg.connect(bank.dsn("pub", application_name="till")) as left:
        with pytest.raises(
            RewindError, match=r"session \d+ \(till\) is in a transaction at pub"
        ) as caught:
            bank.run_orders({"a": [lambda: left.execute("select 1")], "b": [int]})
        assert caught.value.__notes__ == ["after the order: a0 b0"]


def test_names_that_clash(bank: TestTopology) -> None:
    """Sequences are refused if their steps would have equal names, as 'a10' of 'a' and of 'a1'."""
    nothing: list[Callable[[], None]] = [lambda: None]
    with pytest.raises(ConfigurationError, match="clash"):
        bank.run_orders({"a": nothing * 11, "a1": nothing})


@given(orders({"a": 2, "b": ["x", "y"]}, before=["a0 < b1"]))
def test_orders_for_hypothesis(order: tuple[str, ...]) -> None:
    """Drawn orders keep the order of each sequence, and the constraints."""
    assert sorted(order) == ["a0", "a1", "b0", "b1"]
    for first, second in (("a0", "a1"), ("b0", "b1"), ("a0", "b1")):
        assert order.index(first) < order.index(second)


def test_all_orders_are_found_and_the_simplest_first() -> None:
    """Every order can be drawn, the simplest first; impossible constraints are refused."""
    from hypothesis import find

    assert find(orders({"a": 2, "b": 2}), lambda _: True) == ("a0", "a1", "b0", "b1")
    for wanted in set(itertools.permutations(("a0", "b0", "c0"))):
        assert find(orders({"a": 1, "b": 1, "c": 1}), lambda order: order == wanted) == wanted  # noqa: B023 -- used at once
    with pytest.raises(ValueError, match="no order fulfils"):
        orders({"a": 2}, before=["a1 < a0"])


@settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(level=isolation())
def test_levels_for_hypothesis(bank: TestTopology, level: str) -> None:
    """Isolation levels can be drawn, and a topology can be used within an example."""
    bank.session("sub1", name=f"{level} {len(bank.bed.surroundings.sessions)}", isolation=level)
    assert level.split()


class Bank(TopologyMachine):
    """Two Subscribers change an account."""

    @rule(amount=integers(1, 5))
    def give(self, amount: int) -> None:
        """Add to the balance at the first Subscriber."""
        self.attempt("sub1", "update account set balance = balance + %s where id = 1", (amount,))

    @rule(amount=integers(1, 5))
    def take(self, amount: int) -> None:
        """Subtract from the balance at the second Subscriber."""
        self.attempt("sub2", "update account set balance = balance - %s where id = 1", (amount,))


def test_a_machine_of_hypothesis(bank: TestTopology) -> None:
    """After any sequence of rules all copies are equal."""
    Bank.play(bank, max_examples=5, stateful_step_count=6)


def test_a_machine_that_finds_something(bank: TestTopology) -> None:
    """A claim of a machine that does not hold fails the test."""

    class Wrong(Bank):
        def teardown(self) -> None:
            """Check that nothing has changed."""
            super().teardown()
            assert balance(self.topology) == 100

    with pytest.raises(AssertionError):
        Wrong.play(bank, max_examples=10, stateful_step_count=4)
