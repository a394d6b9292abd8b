// @ts-check
// What the address holds of what is shown.

/** How the views of a file are called. @type {Record<string, string>} */
export const OF_FILE = { run: "Play", orders: "Every order", postgres: "On PostgreSQL", edit: "Edit" };

/** @param {import("./app.js").Explorer} explorer */
export function linkOf(explorer) {
  const link = new URLSearchParams();
  const [view, lesson] = explorer.view.split(":");
  if (view === "lessons" && lesson) link.set("lesson", lesson);
  else if (OF_FILE[view] && explorer.file) {
    link.set("file", explorer.file.path);
    if (view !== "run") link.set("view", view);
    if (explorer.listed) link.set("name", explorer.listed);
    if (!explorer.chosen) link.set("order", JSON.stringify(explorer.order));
    if (Object.keys(explorer.switches).length) link.set("switches", JSON.stringify(explorer.switches));
    if (explorer.faults.length) link.set("faults", JSON.stringify(explorer.faults));
  } else if (view !== "start") link.set("view", view);
  return link;
}
