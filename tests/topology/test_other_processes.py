"""Tests of subscriptions made by another process: they are refused, refreshed and served like local ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from psycopg import AsyncConnection

from tests.fix_topology import ACCOUNT, BALANCES, ROWS
from twopc.errors import ArticleError, ConfigurationError, SubscriptionError
from twopc.sim import Topology, operate
from twopc.sim.agent_processes import agent_config
from twopc.sim.topology import other_processes
from twopc.subscriber.distribution_agent import Profile

MakeTopology = Callable[..., Awaitable[Topology]]
NOTE = "create table note (id int primary key, text text)"


async def shops(make_topology: MakeTopology, **profiles: Profile) -> Topology:
    """Return a topology with an account table, a read-only Subscriber and an updating one."""
    topology = await make_topology(subscribers=("reader", "writer"))
    await topology.execute("pub", ACCOUNT)
    await topology.execute("pub", ROWS)
    await topology.publish("account")
    await topology.subscribe("reader", update_mode="read only", profile=profiles.get("reader"))
    await topology.subscribe("writer", profile=profiles.get("writer"))
    return topology


@pytest.fixture
async def topology(make_topology: MakeTopology) -> Topology:
    return await shops(make_topology)


async def elsewhere(topology: Topology, *without: str) -> Topology:
    """Return the same topology, attached by another process without some nodes."""
    names = [topology.publisher, *topology.installer.subscribed, topology.distribution]
    names = [name for name in names if name not in without]
    return await operate.attach({name: topology.node(name).dsn for name in names})


async def profile_of(topology: Topology) -> Profile:
    """Return the profile of a new agent of the reader."""
    agent = topology.agents.make_agent("reader")
    await agent.open()
    await agent.close()
    return agent.profile


async def test_what_is_read_is_not_unpublished(topology: Topology) -> None:
    """An article with a read-only subscription cannot be unpublished; without subscriptions it can."""
    await topology.unsubscribe("writer")
    await topology.execute("pub", NOTE)
    await topology.publish("note")
    async with await elsewhere(topology) as other:
        for one in (topology, other):
            with pytest.raises(ArticleError, match=r"\(14046\): .*`twopc unsubscribe` reader"):
                await one.unpublish("account")
    await topology.execute("pub", "update account set balance = 1 where id = 1")
    await topology.sync()
    await topology.assert_converged()

    for _ in range(2):  # the reader has never received it
        await topology.unpublish("note")
        known = "select count(*) from msrepl.msarticles where source_object = 'note'"
        assert await topology.execute("distribution", known) == [(0,)]
        await topology.publish("note")
    await topology.unsubscribe("reader")
    await topology.unpublish("account")
    await topology.publish("account")
    await topology.execute("reader", "drop table account")
    await topology.subscribe("reader", update_mode="read only")
    await topology.assert_converged()


async def test_everybody_is_refreshed(topology: Topology) -> None:
    """A refresh without names includes Subscribers that another process has subscribed."""
    async with await elsewhere(topology) as other:
        await topology.execute("pub", NOTE)
        await topology.execute("pub", "insert into note values (1, 'one')")
        await topology.publish("note")

        await other.refresh_subscriptions()

        for name in ("reader", "writer"):
            assert await topology.execute(name, "select text from note") == [("one",)]
        await topology.execute("pub", "delete from account where id = 1")
        await other.sync()
        await other.assert_converged()


@pytest.mark.parametrize("sync", ["replication support only", "none"])
async def test_what_came_without_rows_stays_so(make_topology: MakeTopology, sync: str) -> None:
    """A subscription that was made without a copy cannot be reinitialised (21070), by any process."""
    topology = await make_topology(subscribers=("a", "b"))
    await topology.execute("pub", ACCOUNT)
    await topology.publish("account")
    await topology.subscribe("b")
    await topology.execute("b", "create table kept as table account")
    await topology.execute(
        "a", f"{ACCOUNT[:-1]}, msrepl_tran_version uuid not null default gen_random_uuid())"
    )
    await topology.subscribe("a", sync=sync)  # type: ignore[arg-type]
    await topology.execute("pub", NOTE)
    await topology.publish("note")
    await topology.refresh_subscriptions()
    async with await elsewhere(topology) as other:
        for one in (topology, other):
            with pytest.raises(
                SubscriptionError, match=r"\(21070\): `twopc unsubscribe.* and subscribe"
            ):
                await one.reinitialise("a")
    await topology.reinitialise("b")
    await topology.execute("pub", ROWS)
    await topology.sync()
    await topology.assert_converged()


async def test_any_client_where_one_can_write(topology: Topology) -> None:
    """Any client is allowed at all updating Subscribers by default, and refused at a read-only one."""
    async with await elsewhere(topology) as other:
        with pytest.raises(SubscriptionError, match="no subscription with immediate updating"):
            await other.allow_any_client("reader")
        await other.allow_any_client(resolve=False)
        assert await topology.execute("writer", "select count(*) from msrepl.any_client") == [(1,)]
        await other.forbid_any_client()
        assert await topology.execute("writer", "select count(*) from msrepl.any_client") == [(0,)]
        await topology.unsubscribe("writer")
        for change in (other.allow_any_client, other.forbid_any_client):
            with pytest.raises(ConfigurationError, match=r"no Subscriber .* immediate updating"):
                await change()


async def test_a_profile_holds_in_every_process(make_topology: MakeTopology) -> None:
    """A profile is stored with the subscription, and ends with it."""
    profile = Profile(skip_errors=("20598",), commit_batch_size=7, subscription_streams=2)
    topology = await shops(make_topology, reader=profile)
    await topology.execute("reader", "delete from account where id = 1")
    await topology.execute("pub", "update account set balance = 1 where id in (1, 2)")
    await topology.execute("pub", "update account set balance = 3 where id = 3")

    async with await elsewhere(topology) as other:
        done = await other.sync("reader")

        assert (done["reader"].transactions, done["reader"].skipped) == (1, 1)
    assert await profile_of(topology) == profile
    nodes = {name: topology.node(name).dsn for name in ("reader", "distribution")}
    config = await agent_config(
        nodes, "reader", publisher=None, settings={"commit_batch_size": 3}, once=True
    )
    assert config.profile == replace(profile, commit_batch_size=3)
    rows = await topology.execute("reader", BALANCES)
    assert rows == [(2, 100), (3, 3), (4, 100), (5, 100)]
    await topology.unsubscribe("reader")
    await topology.execute("reader", "drop table account")
    await topology.subscribe("reader", update_mode="read only")
    assert await profile_of(topology) == Profile()


async def test_a_stranger_under_an_agents_name(
    make_topology: MakeTopology, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sync` does not wait for a session with an agent's name, and delivers stored transactions."""
    monkeypatch.setattr(other_processes, "STILL_S", 0.5)
    topology = await shops(make_topology)
    await topology.execute("pub", "update account set balance = 1 where id = 1")
    name = f"msrepl agent for {topology.publisher}"
    async with await AsyncConnection.connect(
        topology.node("reader").app_dsn, application_name=name
    ):
        await topology.sync()


async def test_what_is_being_stored_is_not_waited_for(
    make_topology: MakeTopology, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent has delivered everything although the log reader has begun to store a transaction."""
    monkeypatch.setattr(other_processes, "STILL_S", 0.5)
    topology = await shops(make_topology)
    await topology.execute("pub", "update account set balance = 1 where id = 1")
    await topology.sync()
    await topology.execute(
        "distribution",
        """
        update msrepl.mspublisher_databases set open_seqno = read_to + 1::numeric;
        insert into msrepl.msrepl_blocks
        select publisher_database_id, last_seqno + 1::numeric, last_seqno + 1::numeric, 0, 0, commands,
            last_command, seqnos, xids, entry_times, originators, marks, counts, lengths,
            command_seqnos, command_ids, codes, command_originators, hashkeys, texts
        from msrepl.msrepl_blocks order by last_seqno desc limit 1
        """,
    )
    await topology.agents.stop()
    agent = topology.agents.make_agent("reader")
    await agent.open()
    assert await topology.agents._others.have_delivered("reader")
    await agent.close()


async def test_a_routine_is_taken_from_everybody(topology: Topology) -> None:
    """A process that lacks the node of a subscribed Subscriber cannot unpublish a routine."""
    await topology.execute(
        "pub", "create procedure twice() language sql as 'update account set balance = 2 * balance'"
    )
    await topology.publish_procedure("twice")
    await topology.refresh_subscriptions()
    for left_out in (["writer"], ["reader", "writer"]):
        async with await elsewhere(topology, *left_out) as other:
            with pytest.raises(ConfigurationError, match=r"give the nodes of .*writer, too"):
                await other.unpublish_procedure("twice")
    assert len(await topology.procedures.published()) == 1

    await topology.unpublish_procedure("twice")

    await topology.publish_procedure("twice")
    await topology.refresh_subscriptions()
    await topology.execute("pub", "call twice()")
    await topology.sync()
    await topology.assert_converged()


async def test_what_is_published_is_known_whoever_publishes_it(topology: Topology) -> None:
    """The distribution database registers an article even if the process has no Subscriber's node."""
    await topology.execute("pub", NOTE)
    async with await elsewhere(topology, "reader", "writer") as other:
        await other.publish("note")
        assert await other.registration.left_out() == ["reader", "writer"]
    known = "select count(*) from msrepl.msarticles where source_object = 'note'"
    assert await topology.execute("distribution", known) == [(1,)]


async def test_an_article_changes_everywhere(topology: Topology) -> None:
    """A change of an article is refused with the name of a Subscriber whose node is missing."""
    async with await elsewhere(topology, "reader") as other:
        with pytest.raises(ConfigurationError, match="give the nodes of reader, too"):
            await other.articles.change("account", {"upd": "XCALL"})
        await topology.execute("pub", "alter table account add column note text")
        await topology.execute("writer", "alter table account add column note text")
        with pytest.raises(ConfigurationError, match="give the nodes of reader, too"):
            await other.regenerate("account")


async def test_the_topology_is_known_without_a_subscriber(topology: Topology) -> None:
    """The topology's name is found although any client's transactions have that of a Subscriber.

    The node of that Subscriber need not be given.
    """
    await topology.allow_any_client()
    async with await elsewhere(topology, "writer") as other:
        assert other.name == topology.name
    await topology.unsubscribe("writer")
    async with await elsewhere(topology) as other:
        assert other.name == topology.name


async def test_a_log_reader_that_begins_anew_is_waited_for(
    topology: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sync` waits for a log reader of another process that starts just after it was looked for."""
    await topology.execute("pub", "update account set balance = 7 where id = 1")
    async with await elsewhere(topology) as other:
        make_reader = other.agents.make_reader

        async def make() -> object:
            made = await make_reader()
            await topology.start_agents()
            await topology.sync()
            return made

        with monkeypatch.context() as patch:
            patch.setattr(other.agents, "make_reader", make)
            await other.sync()
    await topology.stop_agents()
    await topology.assert_converged()
