// @ts-check
// What is seen first: where to begin.

import { h, replace } from "./dom.js";
import { newButton } from "./new.js";

/** Where most should begin, if it is there. */
const FIRST = "lost-update";

/** @param {HTMLElement} place @param {import("./app.js").Explorer} explorer */
export function startView(place, explorer) {
  const { files } = explorer.files;
  const first = files.find((file) => file.name === FIRST && !file.error);
  const playable = files.filter((file) => !file.error && !file.why_not).length;
  replace(
    place,
    h("h2", {}, "Who wins, who waits, who is refused?"),
    h(
      "p", { class: "lead" },
      "A scenario is a few clients of replicated databases and the order of their steps. Open one, move a step to another place, and see at once what comes of it: ",
      "who waits for whom, what is refused and why, and what every node holds at every moment.",
    ),
    h("div", { class: "begin" },
      first && h("button", { type: "button", class: "main", on: { click: () => explorer.open(first.path) } }, "Begin with the lost update"),
      h("button", { type: "button", on: { click: () => explorer.show("lessons") } }, "Lessons"),
      newButton(explorer)),
    h("dl", { class: "ways" },
      way("Play", "Drag the steps. Switch the isolation level, the commit protocol, a protection. Place a fault at a point of the run."),
      explorer.fixed ? null : way("Every order", "All orders of the steps that can be, by what comes of them."),
      explorer.fixed ? null : way("On PostgreSQL", "The same order on real servers, beside the model."),
      explorer.fixed ? null : way("Edit", "The scenario as text, checked as you write.")),
    h("p", { class: "faint" }, `${playable} of ${files.length} scenarios in ${explorer.files.root || "this folder"} can be explored.`),
  );
}

/** @param {string} name @param {string} text */
const way = (name, text) => [h("dt", {}, name), h("dd", {}, text)];
