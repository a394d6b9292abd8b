// @ts-check
// The frame: what can be opened, which view is shown, and whether the server is there.

import { connect, fragment } from "./api.js";
import { Explorer } from "./app.js";
import { byId, h, replace } from "./dom.js";
import { Files } from "./files.js";
import { start } from "./views.js";

const server = await connect();
const explorer = new Explorer(server);

server.onLost = (/** @type {boolean} */ lost) => {
  const line = byId("trouble");
  line.hidden = false;
  line.classList.toggle("back", !lost);
  line.textContent = lost
    ? "The server does not answer. What you see stays; it goes on when the server is back."
    : "The server is back.";
  if (!lost) setTimeout(() => { if (line.classList.contains("back")) line.hidden = true; }, 4000);
};
explorer.on("fault", (text) => {
  const line = byId("trouble");
  line.hidden = false;
  line.classList.remove("back");
  replace(line, `${text} `, h("button", { type: "button", on: { click: () => { line.hidden = true; } } }, "Close"));
});
addEventListener("unhandledrejection", (event) => explorer.failed(event.reason));

new Files(byId("files"), explorer);
const views = start(explorer);
explorer.on("files", () => document.documentElement.classList.toggle("present", explorer.files.present));
addEventListener("keydown", (event) => {
  const typing = event.target instanceof Element && event.target.closest("input, select, textarea, button, summary, dialog, #view-edit, [data-item]");
  if (event.key === "z" && (event.ctrlKey || event.metaKey) && explorer.view === "run" && !typing) void explorer.undo();
  const by = /** @type {-1 | 1 | undefined} */ ({ ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1 }[event.key]);
  if (!explorer.files.present || typing || by === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  views.turn(by);
});

/** What the link says is shown. */
async function follow() {
  server.renew();
  const link = fragment();
  const path = link.get("file");
  if (link.get("lesson")) return explorer.show(`lessons:${link.get("lesson")}`);
  if (path === null) return explorer.show(link.get("view") ?? "start");
  const read = (/** @type {string} */ name) => (link.has(name) ? JSON.parse(link.get(name) ?? "") : undefined);
  return explorer.open(path, {
    order: read("order"), switches: read("switches"), faults: read("faults"),
    listed: link.get("name") ?? undefined, view: link.get("view") ?? undefined,
  });
}
addEventListener("hashchange", () => void turned().catch((error) => explorer.failed(error)));

/** Another link in this tab; one of a server that was started anew goes on with what is shown. */
async function turned() {
  const anew = fragment().has("token");
  server.renew();
  if (!anew || [...fragment()].length) return follow();
  byId("trouble").hidden = true;
  await explorer.list();
  explorer.show(explorer.view);
  return explorer.play();
}

try {
  await explorer.list();
  await follow();
} catch (error) {
  explorer.failed(error);
}
