"""Checks of the page by actions of a reader in a browser.

A check begins with an open page, as its reader sees it first: that of a run that failed, or that of
one with generated orders, a twin, a cell and repeats.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.report.browser.chromium import Browser

Check = Callable[[Browser, Path], None]

#: Returns the states of the nodes in the first order, as text.
_NODES = """(() => {
  const order = document.querySelector("[data-order]");
  return [...order.querySelectorAll(".node")].map(e => e.innerText.replace(/\\s+/g, " "));
})()"""
_AT = "document.querySelector('[data-order] input[type=range]').value"
_CURRENT = "[...document.querySelectorAll('[aria-current]')].map(e => Number(e.dataset.moment))"

#: Returns every text on the page whose contrast with its background is too low (WCAG 1.4.3: 4.5).
_CONTRAST = """(() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const covers = (element, x, y) => {
    for (const each of document.elementsFromPoint(x, y)) {
      const colour = parse(getComputedStyle(each).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return null;
  };
  const bad = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode, element = text.parentElement;
    if (!text.data.trim() || !element.checkVisibility() || element.closest(".unseen, script, style, :disabled")) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const box = range.getBoundingClientRect();
    const behind = covers(element, box.x + 1, box.y + box.height / 2);
    if (!behind) continue;
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(behind)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) bad.push(`${text.data.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return bad;
})()"""


def the_outcome_is_seen_at_once(browser: Browser, _: Path) -> None:
    """Verdict, expectation, its line, and the command to repeat the order are visible without scrolling."""
    for text in (
        "✗ failed: 1 of 2 orders",
        "expected {id: 1, balance: 80}",
        "failing.twopc.yaml:46:16",
    ):
        assert browser.run(
            f"""(() => {{
              const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
              while (walker.nextNode()) {{
                if (!walker.currentNode.data.includes({text!r})) continue;
                const box = walker.currentNode.parentElement.getBoundingClientRect();
                return box.top >= 0 && box.bottom <= innerHeight;
              }}
              return false;
            }})()"""
        ), text


def the_last_moment_is_shown_first(browser: Browser, _: Path) -> None:
    pub, sub1, sub2 = browser.run(_NODES)
    assert "90 was 100" in pub
    assert "alice ✓ committed" in sub1
    assert "= as at pub" in sub1
    assert "bob ✗ rolled back" in sub2
    assert "≠ differs from pub" in sub2
    assert browser.run(_CURRENT)[0] == 12


def a_click_on_a_row_goes_there(browser: Browser, _: Path) -> None:
    browser.click("[data-moment='7'] .ms")
    assert browser.run(_AT) == "7"
    assert browser.run(_CURRENT)[0] == 7
    pub, sub1, sub2 = browser.run(_NODES)
    assert "bob waits for alice (a_write): a row of account" in pub
    assert "was" not in pub
    assert "alice in a transaction" in sub1
    assert "b_write waits" in sub2


def buttons_step_and_stop_at_the_ends(browser: Browser, _: Path) -> None:
    browser.click("[data-by='-1']")
    assert browser.run(_AT) == "11"
    browser.click("[data-by='1']")
    assert browser.run(_AT) == "12"
    assert browser.run("document.querySelector(\"[data-by='1']\").disabled")
    assert not browser.run("document.querySelector(\"[data-by='-1']\").disabled")


def the_keyboard_is_enough(browser: Browser, _: Path) -> None:
    """Tab reaches the slider; arrows, Home and End move it; it announces its moment."""
    for _step in range(40):
        browser.press("Tab")
        if browser.run("document.activeElement.type") == "range":
            break
    assert browser.run("document.activeElement.type") == "range"
    browser.press("Home")
    assert browser.run(_AT) == "0"
    assert "not begun" in browser.run(_NODES)[1]
    for _step in range(3):
        browser.press("ArrowRight")
    assert browser.run(_AT) == "3"
    said = browser.run("document.activeElement.getAttribute('aria-valuetext')")
    assert said == "3 of 12: 42.0 ms · bob: begin"
    browser.press("End")
    assert browser.run(_AT) == "12"
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") != "none"


def the_timeline_follows_the_arrows(browser: Browser, _: Path) -> None:
    browser.run("document.querySelector('.lanes').focus()")
    browser.press("ArrowLeft")
    assert browser.run(_AT) == "11"
    assert browser.run(_CURRENT)[0] == 11


def orders_are_independent(browser: Browser, _: Path) -> None:
    browser.run("document.querySelectorAll('[data-order]')[1].open = true")
    browser.click("#order-2 [data-by='-1']")
    assert browser.run(_AT) == "12"
    assert browser.run("document.querySelector('#order-2 input').value") == "7"


def a_link_unfolds_its_order(browser: Browser, _: Path) -> None:
    browser.click("nav a[href='#order-2']")
    assert browser.run(
        """new Promise(done => {
          const order = document.querySelector("#order-2");
          if (order.open) done(true);
          else order.addEventListener("toggle", () => done(order.open));
        })"""
    )


def blocked_steps_are_seen_as_blocked(browser: Browser, _: Path) -> None:
    """A blocked step has a band beside the row of its holder, with text and a pattern, not only colour."""
    boxes = browser.run(
        "[...document.querySelectorAll('#order-1 .box.wait')].map(e => ({"
        "height: e.getBoundingClientRect().height, left: e.getBoundingClientRect().left,"
        "image: getComputedStyle(e).backgroundImage}))"
    )
    assert len(boxes) == 2
    assert all(box["height"] > 20 and "gradient" in box["image"] for box in boxes)
    lane = browser.run(
        "document.querySelectorAll('#order-1 .head')[2].getBoundingClientRect().left"
    )
    assert all(abs(box["left"] - lane) < 3 for box in boxes)


def nothing_is_cut_off(browser: Browser, _: Path) -> None:
    """The page does not scroll sideways at any width; wider parts scroll by themselves."""
    for width in (1600, 1100, 700, 380):
        browser.look(width=width)
        assert browser.run("document.documentElement.scrollWidth <= innerWidth"), width
        assert browser.run(
            "[...document.querySelectorAll('.node')].every(e => e.scrollWidth <= e.clientWidth)"
        ), width
        assert browser.run(  # the reason of a refusal is not cut off
            "[...document.querySelectorAll('.say, .more')].every(e => e.scrollHeight <= e.clientHeight + 1)"
        ), width


def text_has_contrast(browser: Browser, _: Path) -> None:
    for scheme in ("light", "dark"):
        height = browser.run("document.documentElement.scrollHeight")
        browser.look(height=height, scheme=scheme)
        browser.run("document.querySelectorAll('details').forEach(e => e.open = true)")
        browser.look(height=browser.run("document.documentElement.scrollHeight"), scheme=scheme)
        assert browser.run(_CONTRAST) == [], scheme


def paper_is_white(browser: Browser, _: Path) -> None:
    """On paper the background is white in any colour scheme, controls are hidden, and text has contrast."""
    browser.look(height=4000, scheme="dark", media="print")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.run("document.querySelector('.player').checkVisibility()") is False
    assert browser.run(_CONTRAST) == []


def everything_to_be_used_has_a_name(browser: Browser, _: Path) -> None:
    """For assistive technology, controls and regions have names, and tables have headers."""
    browser.run("document.querySelectorAll('details').forEach(e => e.open = true)")
    nodes = browser.command("Accessibility.getFullAXTree")["nodes"]
    told = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node["ignored"]
    ]
    named = {"button", "slider", "link", "region", "heading", "navigation", "complementary"}
    assert [role for role, name in told if role in named and not name.strip()] == []
    roles = [role for role, _ in told]
    assert {"slider", "button", "heading", "navigation", "list", "table"} <= set(roles)
    assert roles.count("columnheader") > 10
    assert browser.run("document.documentElement.lang") == "en"


def it_can_be_read_without_script(browser: Browser, page: Path) -> None:
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(page)
        root = browser.command("DOM.getDocument", depth=-1)["root"]
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", value=False)
    shown = _shown(root)
    assert "90was 100" in shown  # white space between elements is not included
    assert "◀" not in shown.partition("The nodes")[2].partition("pub")[0]
    assert "not begun" not in shown


def it_prints_all_orders(browser: Browser, page: Path) -> None:
    paper = page.with_suffix(".pdf")
    browser.pdf(paper)
    assert paper.read_bytes().startswith(b"%PDF")
    assert browser.run("[...document.querySelectorAll('.order')].every(e => e.open)")


def orders_of_one_name_stand_together(browser: Browser, _: Path) -> None:
    """A group shows its counts, and then one order of each behaviour; its link leads there."""
    browser.click("nav a[href='#group-2']")
    top = "document.querySelector('#group-2').getBoundingClientRect().top"
    assert -1 < browser.run(top) < 200
    assert "24 of 36 feasible, 3 behaviours (run: 4)" in browser.run(
        "document.querySelector('#group-2 .counts').innerText"
    )
    names = browser.run("[...document.querySelectorAll('#group-2 h2')].map(e => e.innerText)")
    assert names == [
        "every order",
        "every order #1, and 1 like it",
        "every order #4",
        "every order #9",
    ]


def a_twin_and_a_cell_say_so_beside_their_names(browser: Browser, _: Path) -> None:
    """A twin and a cell have badges with text and with borders of different styles, not only colours."""
    badge = "[...document.querySelectorAll('.order > summary .badge.twin')]"
    assert browser.run(f"{badge}.map(e => e.innerText)") == [
        "twin: version check off, no lost update must fail"
    ]
    assert browser.run(f"getComputedStyle({badge}[0]).borderStyle") == "double"
    cells = browser.run("[...document.querySelectorAll('.badge.cell')].map(e => e.innerText)")
    assert cells == ["isolation.pub = serializable"]


def each_order_of_a_group_has_its_own_moment(browser: Browser, _: Path) -> None:
    at = "[...document.querySelectorAll('#group-2 input[type=range]')].map(e => Number(e.value))"
    before = browser.run(at)
    browser.run("document.querySelectorAll('#group-2 details.order').forEach(e => e.open = true)")
    browser.click("#order-3 [data-by='-1']")
    assert browser.run(at) == [before[0], before[1] - 1, before[2]]


def the_story_can_be_unfolded(browser: Browser, _: Path) -> None:
    browser.click("#order-1 .facts details:first-child > summary")
    told = browser.run("document.querySelector('#order-1 .story').innerText")
    assert "bob's b_write is refused (version mismatch), because" in told


#: checks of the page of a run with many orders of one name
GROUP_CHECKS: tuple[Check, ...] = (
    orders_of_one_name_stand_together,
    a_twin_and_a_cell_say_so_beside_their_names,
    each_order_of_a_group_has_its_own_moment,
    the_story_can_be_unfolded,
    nothing_is_cut_off,
    text_has_contrast,
    paper_is_white,
    everything_to_be_used_has_a_name,
    it_prints_all_orders,
)

#: checks of the page of a run that failed
CHECKS: tuple[Check, ...] = (
    the_outcome_is_seen_at_once,
    the_last_moment_is_shown_first,
    a_click_on_a_row_goes_there,
    buttons_step_and_stop_at_the_ends,
    the_keyboard_is_enough,
    the_timeline_follows_the_arrows,
    orders_are_independent,
    a_link_unfolds_its_order,
    blocked_steps_are_seen_as_blocked,
    nothing_is_cut_off,
    text_has_contrast,
    paper_is_white,
    everything_to_be_used_has_a_name,
    it_can_be_read_without_script,
    it_prints_all_orders,
)


def _shown(node: dict[str, Any]) -> str:
    """Return the visible text below a node."""
    attributes = node.get("attributes", [])
    if "hidden" in attributes[::2] or node["nodeName"] in ("STYLE", "SCRIPT"):
        return ""
    if node["nodeName"] == "#text":
        return str(node["nodeValue"])
    return "".join(_shown(child) for child in node.get("children", []))


#: Every check, with the history whose page it checks.
EVERY: tuple[tuple[str, Check], ...] = (
    *(("failing", check) for check in CHECKS),
    *(("several", check) for check in GROUP_CHECKS),
    *(
        (name, nothing_is_cut_off)
        for name in ("deadlock", "local_row_blocks_apply", "outage", "serializable_per_node")
    ),
)


def perform(check: Check, browser: Browser, page: Path) -> None:
    """Open the page, perform the check, and assert that the page sent no request and logged no error."""
    browser.look()
    browser.open(page)
    check(browser, page)
    for event in browser.events:
        method, told = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            url = told["request"]["url"]
            assert url.partition("#")[0] == page.as_uri(), f"the page asked for {url}"
        assert method not in ("Runtime.exceptionThrown", "Log.entryAdded"), told
