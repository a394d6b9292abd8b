// @ts-check
// All orders of the steps, by what comes of them: a map that fills while they are played.

import { counted, h, replace } from "./dom.js";
import { lanes } from "./lanes.js";
import { itemName, sameOrder } from "./wire.js";

const DOTS_MAX = 48;

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
    const asked = JSON.stringify([explorer.file?.path, explorer.text, explorer.switches, explorer.faults]);
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
    const { file, switches, faults } = explorer;
    const text = explorer.text === file?.text ? undefined : explorer.text;
    try {
      await explorer.server.stream("POST", "/api/orders", { path: file?.path, text, switches, faults }, (_, data) => {
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
    const done = at ? at.run + at.infeasible : 0;
    const total = at ? at.orders : 0;
    const text = at
      ? [`${at.run.toLocaleString("en")} played`, at.infeasible ? `${at.infeasible.toLocaleString("en")} not possible` : "", at.left_out ? `${at.left_out.toLocaleString("en")} left out` : "", `of ${counted(total, "order")}`, `· ${counted(this.#found.size, "behaviour")}`].filter(Boolean).join(" ")
      : this.#running ? "Counting the orders …" : "";
    replace(
      this.progress,
      h("progress", { max: total || 1, value: this.#running && !at ? null : done, "aria-label": "Orders that were looked at" }), h("span", { id: "orders-count" }, text),
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
    const dots = Math.min(behaviour.count, DOTS_MAX);
    return h("li", {}, h(
      "button",
      {
        type: "button", class: `tile ${style}`, "aria-pressed": sameOrder(behaviour.order, explorer.order) ? "true" : "false", data: { behaviour: behaviour.id },
        on: { click: async () => { await explorer.takeOrder(behaviour.order); this.#draw(); } },
      },
      h("span", { class: "tile-text" }, behaviour.holds ? null : h("b", {}, `✗ ${behaviour.broken.join(", ")}: `), behaviour.text),
      h("span", { class: "dots", "aria-hidden": "true" }, Array.from({ length: dots }, () => h("i", {})), behaviour.count > DOTS_MAX ? ` +${behaviour.count - DOTS_MAX}` : null),
      h("span", { class: "faint" }, counted(behaviour.count, "order"), ` as ${behaviour.order.map(itemName).join(" ")}`),
    ));
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
