"""Tests of the HTML page without a browser: its text, its structure, and forbidden content."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser

import pytest

from tests.fix_golden import Golden
from tests.report.recorded import ALL_NAMES, HOSTILE, ended, made, played_again, records, sent
from twopc.sim.report.history import HistoryRecord
from twopc.sim.report.html import page
from twopc.sim.report.html.markup import Markup, join, signs, tag

#: Maximum size of a page, so that it can be sent by mail.
BYTES_MAX = 500_000
VOID = {"input", "meta", "br", "wbr"}


class Page(HTMLParser):
    """The content of a page; asserts that elements are closed in reverse order of opening."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute of {tag} is given twice"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def having(self, attribute: str) -> list[dict[str, str | None]]:
        """Return the attributes of every element that has the given one."""
        return [attributes for _, attributes in self.elements if attribute in attributes]


@pytest.mark.parametrize("name", ["failing", "stuck"])
def test_golden(name: str, golden: Golden) -> None:
    golden(f"report/{name}.html", page(records(name)))


@pytest.mark.parametrize("name", ALL_NAMES)
def test_it_is_well_formed(name: str) -> None:
    found = Page(page(records(name)))
    ids = Counter(each["id"] for each in found.having("id"))
    assert set(ids.values()) == {1}
    pointed = {str(each["href"]).removeprefix("#") for each in found.having("href")}
    pointed |= {str(each["aria-controls"]) for each in found.having("aria-controls")}
    assert pointed <= ids.keys()


@pytest.mark.parametrize("name", ALL_NAMES)
def test_it_asks_for_nothing(name: str) -> None:
    text = page(records(name))
    found = Page(text)
    assert not found.having("src")
    assert all(str(each["href"]).startswith("#") for each in found.having("href"))
    assert not re.search(r"https?:|url\(|@import|@font-face", text)
    (policy,) = found.having("http-equiv")
    assert str(policy["content"]).startswith(
        "default-src 'none'; style-src 'unsafe-inline'; script-"
    )


@pytest.mark.parametrize("name", ALL_NAMES)
def test_of_every_part_one_state_is_seen_at_each_moment(name: str) -> None:
    """At each moment one state of every part is visible; without the script it is the last."""
    found = Page(page(records(name)))
    for slider in (each for kind, each in found.elements if each.get("type") == "range"):
        assert slider["value"] == slider["max"]
    for part in found.having("data-since"):
        assert int(str(part["data-since"])) < int(str(part["data-until"]))
    lasts = {
        int(str(each["data-until"])) for each in found.having("data-since") if "hidden" not in each
    }
    moments = Counter(str(each["data-moment"]) for each in found.having("data-moment"))
    assert lasts <= {int(moment) + 1 for moment in moments}


def test_the_outcome_stands_on_top() -> None:
    for name, sign in (("failing", "✗ failed: 1 of 2 orders"), ("lost_update", "✓ passed")):
        texts = [text.strip() for text in Page(page(records(name))).texts if text.strip()]
        after_style = texts[
            next(n for n, text in enumerate(texts) if text.startswith(":root")) + 1 :
        ]
        assert after_style[:2] == ["lost-update", sign]
    assert "inconclusive" in page(records("lost_update")[:30])


def test_what_went_wrong_is_unfolded_and_nothing_else() -> None:
    found = Page(page(records("failing")))
    assert ["open" in each for each in found.having("data-order")] == [True, False]
    assert 'twopc run failing.twopc.yaml --order "alice first"' in "".join(found.texts)


def test_no_text_becomes_part_of_the_page() -> None:
    header = {"scenario": HOSTILE, "about": HOSTILE, "file": HOSTILE, "publisher": "pub"}
    state = HistoryRecord(
        seq=0,
        t_us=0,
        kind="state",
        node="sub1",
        rows=({HOSTILE: HOSTILE},),
        rowcount=1,
        data={"table": HOSTILE, "key": [HOSTILE], "moment": "initial"},
    )
    refused = ended("rejected", message=HOSTILE, conflict={"kind": HOSTILE})
    text = page(made(state, sent(HOSTILE, step=HOSTILE), refused, **header))
    found = Page(text)
    assert {kind for kind, _ in found.elements} & {"img", "b", "script"} == {"b", "script"}
    assert [kind for kind, _ in found.elements].count("script") == 1
    assert not found.having("onerror")
    assert HOSTILE.split("<")[1] in "".join(found.texts)


def test_a_history_that_was_cut_off_is_drawn_as_far_as_it_goes() -> None:
    whole = records("failing")
    for length in range(1, len(whole)):
        Page(page(whole[:length]))


def test_a_long_run_stays_small() -> None:
    """A page of two thousand records stays small, and says how much is left out."""
    busy = [
        each
        for n in range(1000)
        for each in (
            sent(f"update account set balance = balance - {n} where id = 1", step=f"step_{n}"),
            ended(rowcount=1, tag="UPDATE 1", step=f"step_{n}"),
        )
    ]
    text = page(made(*busy))
    assert len(text.encode()) < BYTES_MAX
    assert "and 800 more steps in history.jsonl" in text
    assert "600 later rows are in history.jsonl and not drawn here." in text


def test_many_orders_stay_small() -> None:
    """If there are more behaviours than a page can contain, failed ones are drawn first."""
    many = played_again("failing", 100)
    found = Page(text := page(many))
    assert len(text.encode()) < BYTES_MAX
    drawn = found.having("data-order")
    assert len(many) > 2000
    assert "open" in drawn[0]
    left = f"{100 - len(drawn)} more orders are in history.jsonl and not drawn here."
    assert left in found.texts
    ids = {each["id"] for each in found.having("id")}
    assert {str(each["href"]).removeprefix("#") for each in found.having("href")} <= ids


def test_orders_of_one_name_are_told_together() -> None:
    texts = "\n".join(Page(page(records("several"))).texts)
    for said in (
        "24 of 36 feasible, 3 behaviours (run: 4)",
        "every order #1, and 1 like it",
        "1 more order that was played went as one of those below.",
        "twin: version check off, no lost update must fail",
        "isolation.pub = serializable",
        "2 times alike; b_write waited for a_write",
        "1 more order that was played went the same way.",
        "seed 7",
        "– twin of alice first: fence off: not on these servers",
        "update_origin_differs",
    ):
        assert said in texts, said
    assert "every order #5" not in texts  # infeasible


def test_a_failure_says_why() -> None:
    texts = Page(page(records("failing"))).texts
    place = texts.index("because")
    assert texts[place + 1].startswith("account id=1 is v2 at the Publisher")
    assert texts[place + 2 : place + 4] == [
        "however",
        "bob's b_write was refused, and changed nothing",
    ]


def test_markup() -> None:
    assert tag("p", "a < b", class_="x", hidden=False, open=True, title='"') == (
        '<p class="x" open title="&quot;">a &lt; b</p>'
    )
    assert tag("input", type="range", min=0) == '<input type="range" min="0">'
    assert join("<", Markup("<br>"), None, "&") == "&lt;<br>&amp;"
    assert signs("⧗ <b>").endswith("</svg> &lt;b&gt;")
