// @ts-check
// What is played: the timeline whose steps can be moved, the switches, and how everything stood at a moment.

import { h, replace, still } from "./dom.js";
import { movable, select } from "./drag.js";
import { lanes, reasons } from "./lanes.js";
import { Look } from "./look.js";
import { otherPoints, placed, pointsOf, switches } from "./switches.js";

export class RunView {
  /** Where each card was, by its key. @type {Map<string, DOMRect>} */
  #before = new Map();
  /** The card that arrows and Tab come to. */
  #focused = "";
  /** Whether it is seen what each check says. */
  #open = false;

  /** @param {HTMLElement} place @param {import("./app.js").Explorer} explorer */
  constructor(place, explorer) {
    this.explorer = explorer;
    this.head = h("div", {});
    this.controls = h("div", { class: "controls" });
    this.switches = h("div", {});
    this.said = h("div", { class: "said", "aria-live": "polite" });
    this.timeline = h("div", { class: "scroll", role: "region", "aria-label": "Timeline" });
    this.faults = h("div", {});
    this.look = new Look(explorer);
    const help = explorer.fixed ? null : h(
      "p", { class: "help" }, "Drag a step to another place, or choose it and press ", h("kbd", {}, "Alt"), " with ", h("kbd", {}, "↑"), " or ", h("kbd", {}, "↓"), ". ⚡ at a step places a fault at a point of the protocol that it comes by.",
    );
    this.stage = h("div", { class: "stage" }, h("div", {}, this.timeline, help, this.faults), this.look.place);
    replace(place, this.head, this.controls, this.switches, this.said, this.stage);
    movable(this.timeline, {
      move: (from, gap) => void (explorer.fixed || explorer.move(from, gap)),
      nudge: (from, by) => void (explorer.fixed || explorer.nudge(from, by)),
      choose: (from) => this.#choose(from),
    });
  }

  /** What is being played is not known yet: only the controls are others. */
  playing() {
    this.#controls();
    this.stage.setAttribute("aria-busy", "true");
  }

  /** Everything anew. */
  draw() {
    const { explorer } = this;
    const { scenario, file, run } = explorer;
    if (file === null) return;
    replace(
      this.head,
      h("div", { class: "title" }, h("h2", {}, scenario?.name ?? file.path), h("span", { class: "path" }, file.path)),
      h("p", { class: "about" }, scenario?.about ?? (file.why_not || "This file has mistakes: the editor shows them.")),
    );
    this.controls.hidden = this.switches.hidden = scenario === null;
    this.stage.hidden = run === null || scenario === null;
    this.stage.removeAttribute("aria-busy");
    if (scenario === null) return replace(this.said);
    this.#controls();
    this.#switches();
    this.#said();
    if (run === null) return;
    this.#timeline();
    replace(this.faults, otherPoints(explorer));
    this.look.draw();
    this.moment();
  }

  #controls() {
    const { explorer } = this;
    const orders = explorer.scenario?.orders ?? [];
    const choice = h(
      "select", { id: "order", on: { change: () => explorer.choose(choice.value) } },
      explorer.chosen === "" && h("option", { value: "" }, "your own order"),
      orders.map((each) => h("option", { value: each.name }, each.generated ? `${each.name}: its first` : each.name)),
    );
    choice.value = explorer.chosen;
    const about = orders.find((each) => each.name === explorer.chosen)?.about;
    const had = document.activeElement?.id ?? "";
    replace(
      this.controls,
      h("label", { for: "order" }, "Order"), choice,
      explorer.fixed ? null : h("button", { type: "button", id: "undo", disabled: !explorer.canUndo, on: { click: () => explorer.undo() } }, "Undo"),
      explorer.fixed ? null : h("button", { type: "button", id: "stop", disabled: !explorer.playing, on: { click: () => explorer.stop() } }, "Stop"),
      about && h("span", { class: "faint" }, about),
    );
    if (["order", "undo", "stop"].includes(had)) document.getElementById(had)?.focus();
  }

  #switches() {
    const had = document.activeElement?.id ?? "";
    replace(this.switches, switches(this.explorer), placed(this.explorer));
    if (had.startsWith("switch-")) document.getElementById(had)?.focus();
  }

  /** What came of it, in words. */
  #said() {
    const { explorer } = this;
    const { run } = explorer;
    if (run === null || explorer.trouble) {
      return replace(this.said, explorer.trouble && h("p", { class: "caught" }, h("b", {}, "✗ "), explorer.trouble));
    }
    const broken = run.invariants.filter((each) => !each.holds);
    return replace(
      this.said,
      explorer.compared && h("p", { class: "compared" }, explorer.compared),
      h("p", { class: "outcome" }, run.outcome),
      run.possible === true && whyNot(run),
      h(
        "ul", { class: "checks", "aria-label": "Checks" },
        run.invariants.map((each) => h("li", { class: each.holds ? null : "bad", title: each.means }, `${each.holds ? "✓" : "✗"} ${each.name}`)),
      ),
      run.invariants.length > 0 && this.#meanings(run.invariants),
      unmet(run).map((each) => h(
        "div", { class: "caught" }, h("p", {}, h("b", {}, "✗ not as the file expects: "), each.message), reasons(each),
      )),
      broken.map((each) => h("div", { class: "caught" }, h("p", {}, h("b", {}, `✗ ${each.name}: `), each.text), reasons(each))),
    );
  }

  /** What each check says. @param {import("./wire.js").Invariant[]} checks */
  #meanings(checks) {
    const details = h(
      "details", { class: "meanings", on: { toggle: () => { this.#open = details.open; } } },
      h("summary", {}, "What is checked"), h("dl", {}, checks.flatMap((each) => [h("dt", {}, each.name), h("dd", {}, each.means)])),
    );
    details.open = this.#open;
    return details;
  }

  #timeline() {
    const { explorer } = this;
    const active = document.activeElement;
    const inside = active instanceof HTMLElement && this.timeline.contains(active);
    if (inside && active.dataset.key) this.#focused = active.dataset.key;
    for (const card of this.#cards()) this.#before.set(card.dataset.key ?? "", card.getBoundingClientRect());
    replace(this.timeline, lanes(/** @type {any} */ (explorer.run), {
      sessions: explorer.scenario?.sessions ?? [], fixed: explorer.fixed, under: (card) => pointsOf(explorer, card),
    }));
    const cards = this.#cards();
    select(this.timeline, cards.find((card) => card.dataset.key === this.#focused) ?? cards[0], inside);
    if (!still()) this.#glide(cards);
    this.#before.clear();
  }

  #cards() {
    return [...this.timeline.querySelectorAll("[data-item]")].map((each) => /** @type {HTMLElement} */ (each));
  }

  /** Cards go from where they were to where they are. @param {HTMLElement[]} cards */
  #glide(cards) {
    for (const card of cards) {
      const from = this.#before.get(card.dataset.key ?? "");
      const to = card.getBoundingClientRect();
      if (!from || (from.top === to.top && from.left === to.left)) continue;
      card.animate(
        [{ transform: `translate(${from.left - to.left}px, ${from.top - to.top}px)` }, { transform: "none" }],
        { duration: 180, easing: "ease-out" },
      );
    }
  }

  /** Show the moment at which a step was over. @param {number} item */
  #choose(item) {
    const card = this.explorer.run?.cards.find((each) => each.item === item);
    if (card === undefined) return;
    this.#focused = card.step;
    const at = card.end_moment >= 0 ? card.end_moment : card.moment;
    if (at >= 0) this.explorer.at(at);
  }

  /** Which of the cards belongs to the moment that is shown. */
  moment() {
    const { run, moment } = this.explorer;
    const step = run?.moments[moment]?.step ?? "";
    for (const item of this.timeline.querySelectorAll(".item")) {
      const card = /** @type {HTMLElement | null} */ (item.querySelector(".card"));
      const now = card?.dataset.moment === String(moment) || (step !== "" && card?.dataset.key === step);
      item.classList.toggle("now", now);
    }
    this.look.moment();
  }
}

/** Of each session that has not committed: which step is the cause, and why. @param {import("./wire.js").Run} run */
function whyNot(run) {
  const reasonsOf = Object.entries(run.outcomes).filter(([, outcome]) => outcome !== "committed").map(([name, outcome]) => {
    const card = run.cards.find((each) => each.session === name && (each.state === "refused" || each.state === "failed"));
    const why = card?.because || card?.result.split(": ").slice(1).join(": ");
    return card && why ? h("li", {}, h("b", {}, name), ` is ${outcome}: ${card.step} ${card.state === "refused" ? "was refused" : "failed"} `, h("i", {}, "because "), why) : null;
  });
  return reasonsOf.some(Boolean) ? h("ul", { class: "why-not" }, reasonsOf) : null;
}

/** What the file expects besides its invariants, and did not come; of faults that are placed their list tells. @param {import("./wire.js").Run} run */
function unmet(run) {
  const checks = new Set(run.invariants.map((each) => each.name));
  return run.failures.filter((each) => !checks.has(each.check) && !each.message.startsWith("fault 'placed_"));
}
