"use strict";
// Chooses the moment that is seen. The page can be read without it: then the last moment is.

for (const order of document.querySelectorAll("[data-order]")) {
  const slider = order.querySelector("input[type=range]");
  const now = order.querySelector(".now");
  const when = order.querySelector(".when");
  const rows = [...order.querySelectorAll("[data-moment]")];
  const parts = [...order.querySelectorAll("[data-since]")];

  const told = (at) => {
    if (at === 0) return "before the first step";
    const row = rows[at - 1];
    return [...row.children].map((cell) => cell.innerText.replace(/\s+/g, " ").trim()).join(" · ");
  };

  const show = (at) => {
    for (const part of parts) {
      part.hidden = at < Number(part.dataset.since) || at >= Number(part.dataset.until);
    }
    rows.forEach((row, place) => {
      if (place === at - 1) row.setAttribute("aria-current", "step");
      else row.removeAttribute("aria-current");
    });
    now.textContent = told(at);
    when.textContent = at === rows.length ? "after the last step" : `at moment ${at} of ${rows.length}`;
    slider.setAttribute("aria-valuetext", `${at} of ${rows.length}: ${told(at)}`);
    for (const button of order.querySelectorAll("[data-by]")) {
      const next = at + Number(button.dataset.by);
      button.disabled = next < 0 || next > rows.length;
    }
  };

  const go = (at) => {
    slider.value = Math.min(rows.length, Math.max(0, at));
    show(Number(slider.value));
    const row = rows[slider.value - 1];
    if (row) row.firstElementChild.scrollIntoView({ block: "nearest" });
  };

  slider.addEventListener("input", () => go(Number(slider.value)));
  order.addEventListener("click", (event) => {
    const button = event.target.closest("[data-by]");
    const row = event.target.closest("[data-moment]");
    if (button) go(Number(slider.value) + Number(button.dataset.by));
    else if (row && getSelection().isCollapsed) go(Number(row.dataset.moment));
  });
  order.querySelector(".lanes").addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (by === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    go(Number(slider.value) + by);
  });
  order.querySelector(".player").hidden = false;
  show(rows.length);
}

// A link to an order unfolds it; paper shows all of them.
const unfold = () => {
  const order = location.hash && document.getElementById(location.hash.slice(1));
  if (order && order.matches("details")) {
    order.open = true;
    order.scrollIntoView();
  }
};
addEventListener("hashchange", unfold);
unfold();
addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details.order")) each.open = true;
});
