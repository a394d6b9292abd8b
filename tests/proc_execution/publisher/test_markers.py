"""Where a call begins and ends is marked, if and only if what it changed is there."""

from __future__ import annotations

from tests.proc_execution.publisher.home import GIVE_RAISE, Home


async def test_a_call_is_marked_around_its_rows(home: Home) -> None:
    article = await home.publish(GIVE_RAISE)
    await home.serializable("call give_raise(10)")
    assert await home.rows("select id, salary::int from emp order by id") == [
        (1, 110),
        (2, 220),
        (3, 330),
    ]
    assert await home.marks() == [
        (article.article_id, "open", None),
        (article.article_id, "close", None),
    ]
    [call] = await home.calls()
    assert call["v"] == ["10"]
    assert call["s"]["search_path"] == "public"
