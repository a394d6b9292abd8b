"""Tests of how transactions are grouped into commits, without a database."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twopc.errors import ConfigurationError
from twopc.subscriber.distribution_agent import Profile
from twopc.subscriber.distribution_agent.planner import (
    ArticleTerms,
    Batch,
    BatchPlanner,
    PgSnapshot,
    Window,
)


def window(*commands: int, first: int = 1, own: int = 0, lengths: tuple[int, ...] = ()) -> Window:
    """Return transactions at 1, 2, 3 ... with these numbers of commands, all of one originator."""
    count = len(commands)
    return Window(
        seqnos=range(first, first + count),
        xids=range(100 + first, 100 + first + count),
        commands=commands,
        bytes=lengths or (0,) * count,
        originators=(own,) * count,
    )


def plan(found: Window, *terms: ArticleTerms, position: int = 0, **profile: int) -> list[Batch]:
    """Return the batches that the planner makes; of one article if no terms are given."""
    planner = BatchPlanner(terms or (ArticleTerms(article_id=7),), Profile(**profile))  # type: ignore[arg-type]
    return list(planner.plan(position, found))


def test_a_batch_takes_so_many_transactions() -> None:
    batches = plan(window(*[1] * 7), commit_batch_size=3)
    assert [batch.seqnos for batch in batches] == [(1, 2, 3), (4, 5, 6), (7,)]
    assert [(batch.after, batch.upto) for batch in batches] == [(0, 3), (3, 6), (6, 7)]


def test_a_batch_takes_so_many_commands() -> None:
    batches = plan(window(4, 4, 4, 4), commit_batch_threshold=10)
    assert [batch.seqnos for batch in batches] == [(1, 2), (3, 4)]


def test_a_large_transaction_is_whole_and_alone() -> None:
    batches = plan(window(1, 5000, 1, 0), commit_batch_threshold=10)
    assert [batch.seqnos for batch in batches] == [(1,), (2,), (3, 4)]


def test_long_commands_are_not_held_together() -> None:
    batches = plan(window(1, 1, 1, lengths=(600, 600, 200)), block_bytes=1000)
    assert [batch.seqnos for batch in batches] == [(1,), (2, 3)]


def test_own_transactions_count_as_nothing() -> None:
    batches = plan(
        window(50, 50, own=3), ArticleTerms(article_id=7, own=3), commit_batch_threshold=10
    )
    assert [(batch.seqnos, batch.own, batch.commands) for batch in batches] == [((1, 2), 2, 0)]


def test_own_transactions_that_come_back_count() -> None:
    terms = (ArticleTerms(article_id=7, own=3), ArticleTerms(article_id=8))
    assert [b.seqnos for b in plan(window(50, 50, own=3), *terms, commit_batch_threshold=10)] == [
        (1,),
        (2,),
    ]


def test_nothing_before_an_article_was_subscribed_to() -> None:
    early, late = ArticleTerms(article_id=7, after=2), ArticleTerms(article_id=8, after=4)
    batches = plan(window(*[1] * 6), early, late)
    assert [(batch.seqnos, batch.articles) for batch in batches] == [
        ((1, 2), ()),
        ((3, 4), (7,)),
        ((5, 6), (7, 8)),
    ]


def test_what_the_copy_has_seen_is_not_delivered_again() -> None:
    """Transactions that the copy's snapshot saw are left out.

    1 and 3 were committed before the snapshot, 2 and 4 after it; 5 and 6 follow the copy.
    """
    seen = PgSnapshot.parse("102:104:102")
    terms = ArticleTerms(article_id=7, after=0, copy=seen, copied_to=4)
    batches = plan(window(*[1] * 6), terms)
    assert [(batch.seqnos, batch.articles) for batch in batches] == [
        ((1,), ()),
        ((2,), (7,)),
        ((3,), ()),
        ((4, 5, 6), (7,)),
    ]


@pytest.mark.parametrize(
    ("text", "seen", "unseen"),
    [
        ("10:10:", [3, 9], [10, 11]),
        ("10:20:10,15", [9, 11, 14, 19], [10, 15, 20, 99]),
        ("10:20:", [9, 10, 19], [20]),
    ],
)
def test_snapshots(text: str, seen: list[int], unseen: list[int]) -> None:
    snapshot = PgSnapshot.parse(text)
    assert all(snapshot.sees(xid) for xid in seen)
    assert not any(snapshot.sees(xid) for xid in unseen)


def test_it_begins_where_the_first_article_does() -> None:
    planner = BatchPlanner(
        (ArticleTerms(article_id=7, after=5), ArticleTerms(article_id=8, after=9)), Profile()
    )
    assert (planner.start(0), planner.start(7)) == (5, 7)
    assert BatchPlanner((), Profile()).start(3) == 3


COMMANDS = st.lists(st.integers(0, 30), max_size=40)
TERMS = st.lists(
    st.builds(
        lambda article, after, copied_to, running, own: ArticleTerms(
            article_id=article,
            after=after,
            copy=PgSnapshot(xmin=101, xmax=141, running=frozenset(running)) if running else None,
            copied_to=copied_to,
            own=own,
        ),
        st.integers(1, 99),
        st.integers(0, 45),
        st.integers(0, 45),
        st.sets(st.integers(101, 140), max_size=10),
        st.sampled_from([None, 1]),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda each: each.article_id,
)


@settings(deadline=None)  # the machine may be busy
@given(COMMANDS, TERMS, st.lists(st.sampled_from([0, 1, 2]), min_size=40, max_size=40), st.data())
def test_every_plan(
    commands: list[int], terms: list[ArticleTerms], originators: list[int], data: st.DataObject
) -> None:
    """Every transaction is whole, in one batch, in order, for the articles that want it, within bounds."""
    size, threshold = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 60))
    found = Window(
        seqnos=range(1, len(commands) + 1),
        xids=range(101, len(commands) + 101),
        commands=commands,
        bytes=[10 * each for each in commands],
        originators=originators[: len(commands)],
    )
    profile = Profile(commit_batch_size=size, commit_batch_threshold=threshold)
    planner = BatchPlanner(terms, profile)
    batches = list(planner.plan(0, found))
    assert [seqno for batch in batches for seqno in batch.seqnos] == list(found.seqnos)
    at = 0
    for batch in batches:
        assert (batch.after, batch.upto) == (at, batch.seqnos[-1])
        at = batch.upto
        assert len(batch.seqnos) <= size
        assert batch.commands <= threshold or len([*batch.seqnos]) == 1 or batch.commands == 0
        for seqno in batch.seqnos:
            assert batch.articles == planner.articles_for(seqno, seqno + 100)
            assert set(batch.articles) == {
                each.article_id for each in terms if each.wants(seqno, seqno + 100)
            }
        assert [each.seqnos for each in batch.apart()] == [(seqno,) for seqno in batch.seqnos]
        assert [each.after for each in batch.apart()] == [batch.after, *batch.seqnos[:-1]]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(1, 9), st.integers(1, 60))
def test_a_plain_window_is_cut_as_any_other(commands: list[int], size: int, threshold: int) -> None:
    """A window without own transactions is planned by a shortcut, with the same result."""
    drawn = Window(
        seqnos=range(1, len(commands) + 1),
        xids=range(101, len(commands) + 101),
        commands=commands,
        bytes=[each * 100_000 for each in commands],
        originators=[0] * len(commands),
    )
    profile = Profile(
        commit_batch_size=size, commit_batch_threshold=threshold, block_bytes=4_000_000
    )
    # An own transaction makes the planner inspect the whole window; here it is alone in the
    # last batch.
    terms = (ArticleTerms(article_id=7, own=5),)
    with_own = Window(
        seqnos=range(1, len(commands) + 2),
        xids=range(101, len(commands) + 102),
        commands=[*commands, 10_000],
        bytes=[*drawn.bytes, 100_000_000],
        originators=[*drawn.originators, 5],
    )
    planner = BatchPlanner(terms, profile)
    assert list(planner.plan(0, drawn)) == list(planner.plan(0, with_own))[:-1]


def test_a_long_backlog_is_brought_in_few_commits() -> None:
    """Batches of a long backlog grow up to the profile's limit.

    They keep the usual size if few transactions wait, or after a failure.
    """
    planner = BatchPlanner((ArticleTerms(article_id=7),), Profile(backlog_batch_size=3_000))

    def sizes(count: int, *, grows: bool) -> set[int]:
        drawn = Window(
            seqnos=range(1, count + 1), xids=range(count), commands=[1] * count, bytes=[9] * count,
            originators=[0] * count,
        )  # fmt: skip
        batches = list(planner.plan(0, drawn, grows=grows))
        assert all(planner.is_usual(each) for each in batches) == (len(batches[0].seqnos) == 100)
        return {len(each.seqnos) for each in batches}

    assert sizes(900, grows=True) == sizes(6_000, grows=False) == {100}
    assert sizes(4_000, grows=True) == {2_000}
    assert sizes(9_000, grows=True) == {3_000}


@pytest.mark.parametrize(
    "wrong",
    [
        {"commit_batch_size": 0},
        {"commit_batch_threshold": 10_001},
        {"subscription_streams": 65},
        {"skip_errors": ("twenty",)},
    ],
)
def test_a_profile_is_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        Profile(**wrong)  # type: ignore[arg-type]
