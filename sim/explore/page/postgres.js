// @ts-check
// The order that is shown on real servers, beside the same on the model.

import { Refused } from "./api.js";
import { announce, counted, h, listed, replace } from "./dom.js";
import { lanes } from "./lanes.js";

export class BothView {
  #stop = new AbortController();
  #running = false;
  /** @type {any} */
  #answer = null;
  #trouble = "";
  /** What the answer is for. */
  #of = "";

  /** @param {HTMLElement} place @param {import("./app.js").Explorer} explorer */
  constructor(place, explorer) {
    this.explorer = explorer;
    this.head = h("div", { class: "title" });
    this.tools = h("div", { class: "controls" });
    this.said = h("div", { "aria-live": "polite" });
    this.both = h("div", { class: "two" });
    replace(place, this.head, this.tools, this.said, this.both);
  }

  get #asked() {
    const { file, text, variant } = this.explorer;
    return JSON.stringify([file?.path, text, variant]);
  }

  draw() {
    const { explorer } = this;
    const named = (/** @type {string} */ name) => name.replace(/^protection\./, "").replaceAll("_", " ");
    const otherwise = [
      ...Object.entries(explorer.switches).map(([name, value]) => `${named(name)} ${named(value)}`),
      ...explorer.faults.map((each) => `${each.do} at ${each.at}`),
    ];
    const order = `${explorer.chosen || "your own order"}${otherwise.length ? `, with ${listed(otherwise)}` : ""}`;
    replace(this.head, h("h2", {}, "On PostgreSQL"), h("span", { class: "path" }, `${explorer.scenario?.name ?? ""}, ${order}`));
    if (this.#of !== this.#asked && !this.#running) [this.#answer, this.#trouble] = [null, ""];
    replace(
      this.tools,
      h("button", { type: "button", class: "main", id: "on-postgres", disabled: this.#running || explorer.scenario === null, on: { click: () => this.#play() } }, "Play it on real servers"),
      this.#running ? h("button", { type: "button", id: "stop-postgres", on: { click: () => this.#stop.abort() } }, "Stop") : null,
      this.#running ? h("span", { class: "faint working" }, "PostgreSQL is playing the order; servers that are not there yet are started first …") : null,
    );
    this.#said();
  }

  async #play() {
    const { explorer } = this;
    this.#stop = new AbortController();
    const { signal } = this.#stop;
    const { file, text, variant } = explorer;
    this.#of = this.#asked;
    this.#running = true;
    this.#answer = null;
    this.#trouble = "";
    this.draw();
    try {
      const answer = await explorer.server.ask("POST", "/api/postgres", { path: file?.path, text, ...variant }, { signal });
      this.#answer = answer;
      announce(answer.first_difference ? "PostgreSQL differs from the model." : answer.chosen ? "PostgreSQL and the model differ in what PostgreSQL may choose." : "PostgreSQL and the model agree.");
    } catch (error) {
      this.#trouble = signal.aborted ? "Stopped." : error instanceof Error ? error.message : String(error);
      if (!signal.aborted && !(error instanceof Refused)) throw error;
    } finally {
      this.#running = false;
      this.draw();
    }
  }

  #said() {
    const answer = this.#answer;
    const { scenario } = this.explorer;
    replace(this.said, this.#trouble && h("p", { class: "caught" }, h("b", {}, "✗ "), this.#trouble));
    replace(this.both);
    if (answer === null || scenario === null) {
      if (!this.#running && !this.#trouble) replace(this.said, h("p", { class: "about" }, "The order is played on PostgreSQL servers of its own, with the same switches and faults, and laid beside the model's."));
      return;
    }
    const difference = answer.first_difference;
    replace(
      this.said,
      difference
        ? h("div", { class: "caught" },
          h("p", {}, h("b", {}, "First difference: "), difference.about),
          h("dl", {}, h("dt", {}, "model"), h("dd", {}, difference.model), h("dt", {}, "PostgreSQL"), h("dd", {}, difference.postgres)),
          answer.differences > 1 && h("p", {}, `${counted(answer.differences, "difference")} in all.`))
        : answer.chosen
          ? h("p", { class: "compared", id: "chosen" }, h("b", {}, "They differ in what PostgreSQL may choose: "), `${answer.chosen}. What follows from that is not compared.`)
          : h("p", { class: "agree", id: "agree" }, h("b", {}, "✓ They agree: "), "every step ended the same way, with the same waits, rows and versions."),
    );
    const side = (/** @type {string} */ name, /** @type {any} */ run) => {
      const drawn = h("section", { "aria-label": name }, h("h3", {}, name), h("p", { class: "outcome" }, run.outcome), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Timeline on ${name}` }, lanes(run, { sessions: scenario.sessions, fixed: true })));
      if (difference?.step) for (const card of drawn.querySelectorAll("[data-key]")) if (card.dataset.key === difference.step) card.classList.add("differs");
      return drawn;
    };
    replace(this.both, side("Model", answer.model), side("PostgreSQL", answer.run));
  }
}
