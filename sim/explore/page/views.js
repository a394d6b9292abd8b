// @ts-check
// Which view is shown, and the buttons that lead there.

import { fragment } from "./api.js";
import { byId, h, replace } from "./dom.js";
import { EveryView } from "./every.js";
import { exportButton } from "./export.js";
import { OF_FILE, linkOf } from "./link.js";
import { LessonsView } from "./lessons.js";
import { BothView } from "./postgres.js";
import { RunView } from "./run.js";
import { startView } from "./start.js";
import { WriteView } from "./write.js";

/** @param {import("./app.js").Explorer} explorer */
export function start(explorer) {
  const main = byId("main");
  const places = Object.fromEntries(["start", "run", "orders", "postgres", "edit", "lessons"].map((name) => [name, h("div", { hidden: true, id: `view-${name}` })]));
  replace(main, ...Object.values(places));
  const run = new RunView(places.run, explorer);
  const every = new EveryView(places.orders, explorer);
  const both = new BothView(places.postgres, explorer);
  const write = new WriteView(places.edit, explorer);
  const lessons = new LessonsView(places.lessons, explorer);

  const draw = () => {
    const [view] = explorer.view.split(":");
    for (const [name, place] of Object.entries(places)) place.hidden = name !== view;
    if (view === "start") startView(places.start, explorer);
    if (view === "run") run.draw();
    if (view === "orders") every.draw();
    if (view === "postgres") both.draw();
    if (view === "edit") void write.draw().catch((error) => explorer.failed(error));
    if (view === "lessons") void lessons.draw().catch((error) => explorer.failed(error));
    byId("frame").classList.toggle("alone", view === "lessons");
    byId("files").hidden = view === "lessons";
    bar(explorer, view);
    document.title = ["twopc explore", OF_FILE[view] ? explorer.scenario?.name ?? explorer.file?.path : view === "lessons" ? "lessons" : ""].filter(Boolean).reverse().join(" – ");
  };
  explorer.on("view", () => { draw(); remember(explorer, isElsewhere(explorer)); });
  explorer.on("run", () => { if (explorer.view === "run") run.draw(); bar(explorer, explorer.view); remember(explorer); });
  explorer.on("play", () => { if (explorer.view === "run") run.playing(); });
  explorer.on("moment", () => { if (explorer.view === "run") run.moment(); });
  explorer.on("files", () => { if (explorer.view === "start") startView(places.start, explorer); });
  byId("home").addEventListener("click", (/** @type {Event} */ event) => { event.preventDefault(); explorer.show("start"); });
  addEventListener("beforeunload", (event) => { if (explorer.drafts.size) event.preventDefault(); });
  return {
    /** What a key for next or back does where it is presented. @param {-1 | 1} by */
    turn: (by) => void (explorer.view.startsWith("lessons") ? lessons.turn(by) : explorer.at(explorer.moment + by)),
  };
}

/** @param {import("./app.js").Explorer} explorer @param {string} view */
function bar(explorer, view) {
  const tab = (/** @type {string} */ name, /** @type {string} */ label) => h(
    "button", { type: "button", id: `tab-${name}`, "aria-current": view === name ? "page" : null, on: { click: () => explorer.show(name) } }, label,
  );
  const had = document.activeElement?.id ?? "";
  const offered = Object.entries(OF_FILE).filter(([name]) => !explorer.fixed || name === "run");
  replace(byId("tabs"), explorer.file ? offered.map(([name, label]) => tab(name, label)) : null, tab("lessons", "Lessons"));
  replace(byId("actions"), OF_FILE[view] && explorer.run ? exportButton(explorer) : null);
  if (had.startsWith("tab-")) byId(had)?.focus();
}

/**
 * The address holds what is shown, without the token: it can be loaded again. Another file, view or lesson is
 * another place, from which the browser goes back; another order or switch is not, as there is Undo.
 *
 * @param {import("./app.js").Explorer} explorer @param {boolean} [elsewhere]
 */
function remember(explorer, elsewhere = false) {
  const address = `${location.pathname}${location.search}#${linkOf(explorer)}`;
  if (elsewhere) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}

/** Whether the address says another place than is shown now. @param {import("./app.js").Explorer} explorer */
function isElsewhere(explorer) {
  const [said, now] = [fragment(), linkOf(explorer)];
  return ["file", "view", "lesson"].some((name) => said.get(name) !== now.get(name));
}
