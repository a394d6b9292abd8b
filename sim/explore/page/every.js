// @ts-check
// All orders of the steps, by what comes of them: a map that fills while they are played.

import { counted, h, listed, replace } from "./dom.js";
import { glass, lanes } from "./lanes.js";
import { itemName, sameOrder } from "./wire.js";

export class EveryView {
  /** @type {Map<string, any>} */
  #found = new Map();
  #stop = new AbortController();
  /** @type {any} */
  #at = null;
  #running = false;
  #why = "";
  /** What was asked for. */
  #asked = "";

  /** @param {HTMLElement} place @param {import("./app.js").Explorer} explorer */
  constructor(place, explorer) {
    this.explorer = explorer;
    this.head = h("div", { class: "title" });
    this.progress = h("div", { class: "progress" });
    this.map = h("ul", { class: "map", "aria-label": "Orders by what comes of them" });
    this.shown = h("section", { "aria-label": "The order that is chosen", class: "chosen-order" });
    replace(place, this.head, this.progress, this.map, this.shown);
    explorer.on("run", () => { if (explorer.view === "orders") this.#drawChosen(); });
  }

  draw() {
    const { explorer } = this;
    const asked = JSON.stringify([explorer.file?.path, explorer.text, explorer.listed, explorer.switches, explorer.faults]);
    replace(this.head, h("h2", {}, "Every order"), h("span", { class: "path" }, `of ${explorer.scenario?.name ?? ""}`));
    if (asked !== this.#asked && explorer.scenario !== null) {
      this.#asked = asked;
      void this.#compute();
    }
    this.#draw();
    this.#drawChosen();
  }

  async #compute() {
    const { explorer } = this;
    this.#stop.abort();
    this.#stop = new AbortController();
    const { signal } = this.#stop;
    this.#found.clear();
    this.#at = null;
    this.#why = "";
    this.#running = true;
    const { file, text, listed: of, switches, faults } = explorer;
    try {
      await explorer.server.stream("POST", "/api/orders", { path: file?.path, text, listed: of, switches, faults }, (_, data) => {
        if (!signal.aborted) this.#see(data);
      }, signal);
    } catch (error) {
      if (signal.aborted) return;
      this.#why = error instanceof Error ? error.message : String(error);
      this.#asked = "";
    }
    if (signal.aborted) return;
    this.#running = false;
    this.#draw();
  }

  /** @param {any} event */
  #see(event) {
    this.#at = event;
    if (event.behaviour) this.#found.set(event.behaviour.id, event.behaviour);
    if (event.why) this.#why = event.why;
    this.#draw();
  }

  #halt() {
    this.#stop.abort();
    this.#running = false;
    this.#why = "Stopped.";
    this.#draw();
  }

  #draw() {
    const at = this.#at;
    const number = (/** @type {number} */ count) => count.toLocaleString("en");
    const text = at
      ? [
        `${counted(at.orders, "order")}: ${number(at.infeasible)} not possible, ${number(at.run)} played for all that come to the same`,
        at.left_out ? `${number(at.left_out)} left out` : "", counted(this.#found.size, "behaviour"),
      ].filter(Boolean).join(" · ")
      : this.#running ? "Counting the orders …" : "";
    const finished = !this.#running && at;
    replace(
      this.progress,
      h("progress", { max: at?.orders || 1, value: finished ? at.orders : at ? at.run + at.infeasible : null, "aria-label": "Orders that were looked at" }), h("span", { id: "orders-count" }, text),
      this.#running
        ? h("button", { type: "button", id: "orders-stop", on: { click: () => this.#halt() } }, "Stop")
        : h("button", { type: "button", on: { click: () => void this.#compute() } }, "Again"),
      this.#why && h("span", { class: "wait" }, this.#why),
    );
    const had = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.behaviour : undefined;
    replace(this.map, [...this.#found.values()].map((each) => this.#tile(each)));
    if (had) /** @type {HTMLElement | null} */ (this.map.querySelector(`[data-behaviour="${CSS.escape(had)}"]`))?.focus();
  }

  /** @param {any} behaviour */
  #tile(behaviour) {
    const { explorer } = this;
    const style = !behaviour.holds ? "bad" : behaviour.refused.length ? "wait" : "good";
    return h("li", {}, h(
      "button",
      {
        type: "button", class: `tile ${style}`, "aria-pressed": sameOrder(behaviour.order, explorer.order) ? "true" : "false", data: { behaviour: behaviour.id },
        on: { click: async () => { await explorer.takeOrder(behaviour.order); this.#draw(); } },
      },
      h("span", { class: "tile-text" }, behaviour.holds ? null : h("b", {}, `✗ ${behaviour.broken.join(", ")}: `), behaviour.text),
      behaviour.waits.map((/** @type {string} */ each) => h("span", { class: "wait" }, glass(), ` ${each}`)),
      behaviour.refused.length ? h("span", { class: "bad" }, `✗ ${listed(behaviour.refused)} refused`) : null,
      this.#glyph(behaviour),
      h("span", { class: "faint" }, counted(behaviour.count, "order"), ` played, as ${behaviour.order.map(itemName).join(" ")}`),
    ));
  }

  /** The order as a small picture: a row for each session, a mark for each step. @param {any} behaviour */
  #glyph(behaviour) {
    const { explorer } = this;
    const lanes = explorer.scenario?.sessions.map((each) => each.name) ?? [];
    const width = behaviour.order.length * 11;
    const marks = behaviour.order.map((/** @type {any} */ item, /** @type {number} */ at) => h("svg:rect", {
      x: at * 11, y: Math.max(0, lanes.indexOf(explorer.sessionOf(item))) * 9, width: 9, height: 7, rx: 1.5, class: behaviour.refused.includes(item) ? "refused" : null,
    }));
    return h("svg:svg", { class: "glyph", viewBox: `0 0 ${width} ${lanes.length * 9}`, width, height: lanes.length * 9, "aria-hidden": "true" }, marks);
  }

  #drawChosen() {
    const { explorer } = this;
    if (explorer.run === null || explorer.scenario === null) return replace(this.shown);
    return replace(
      this.shown,
      h("p", { class: "outcome" }, explorer.run.outcome),
      h("div", { class: "scroll" }, lanes(explorer.run, { sessions: explorer.scenario.sessions, fixed: true })),
      h("p", {}, h("button", { type: "button", on: { click: () => explorer.show("run") } }, "Look inside, and move its steps")),
    );
  }
}
