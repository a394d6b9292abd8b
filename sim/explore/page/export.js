// @ts-check
// What is shown, to be kept: as a scenario, a test, a page, a picture, or a link.

import { announce, h, replace } from "./dom.js";
import { linkOf } from "./link.js";
import { pictureOf } from "./svg.js";

const KINDS = {
  scenario: ["Scenario file", "with what came of it as its expectation"],
  pytest: ["pytest test", "which plays it and expects the same"],
  html: ["HTML page", "the report, in one file"],
  svg: ["SVG picture", "of the timeline"],
  link: ["Link", "that opens it again"],
};

/** @param {import("./app.js").Explorer} explorer */
export function exportButton(explorer) {
  return h("button", { type: "button", id: "export", "aria-haspopup": "dialog", on: { click: () => open(explorer) } }, "Export");
}

/** @param {import("./app.js").Explorer} explorer */
function open(explorer) {
  const kinds = Object.entries(KINDS).filter(([kind]) => kind === "svg" || kind === "link" || !explorer.fixed);
  const result = h("div", { class: "exported", "aria-live": "polite" });
  const make = async (/** @type {string} */ kind) => {
    try {
      const made = kind === "svg" ? svgOf(explorer) : kind === "link" ? linkTo(explorer) : await ask(explorer, kind);
      show(result, made, kind);
    } catch (error) {
      replace(result, h("p", { class: "bad" }, error instanceof Error ? error.message : String(error)));
    }
  };
  const dialog = h(
    "dialog", { "aria-label": "Export", class: "export", on: { close: () => dialog.remove() } },
    h("h2", {}, "Export what is shown"),
    h("ul", { class: "kinds" }, kinds.map(([kind, [name, about]]) => h(
      "li", {}, h("button", { type: "button", id: `export-${kind}`, on: { click: () => make(kind) } }, name), " ", h("span", { class: "faint" }, about),
    ))),
    result,
    h("div", { class: "controls" }, h("button", { type: "button", on: { click: () => dialog.close() } }, "Close")),
  );
  document.body.append(dialog);
  dialog.showModal();
}

/** @param {import("./app.js").Explorer} explorer @param {string} kind */
function ask(explorer, kind) {
  const { file, text } = explorer;
  return explorer.server.ask("POST", "/api/export", { path: file?.path, text, kind, ...explorer.variant, name: explorer.chosen || undefined });
}

/** @param {import("./app.js").Explorer} explorer */
function linkTo(explorer) {
  const text = explorer.server.link(String(linkOf(explorer)));
  return { filename: "", media_type: "text/plain", text, remarks: explorer.fixed ? [] : ["It holds the secret of this server, and works for as long as it runs."] };
}

/** @param {import("./app.js").Explorer} explorer */
function svgOf(explorer) {
  const name = (explorer.scenario?.name ?? "order").replace(/[^\w.-]+/g, "_");
  const text = pictureOf(/** @type {any} */ (explorer.run), explorer.scenario?.sessions ?? [], `${explorer.scenario?.name}: ${explorer.chosen || "an order"}`);
  return { filename: `${name}.svg`, media_type: "image/svg+xml", text, remarks: [] };
}

/** @param {HTMLElement} place @param {{filename: string, media_type: string, text: string, remarks: string[]}} made @param {string} kind */
function show(place, made, kind) {
  const copy = h("button", { type: "button", on: { click: async () => { await navigator.clipboard.writeText(made.text); announce("Copied."); replace(copy, "Copied"); } } }, "Copy");
  const address = URL.createObjectURL(new Blob([made.text], { type: made.media_type }));
  replace(
    place,
    made.remarks.map((each) => h("p", { class: "wait" }, each)),
    h("div", { class: "controls" }, copy, kind === "link" ? null : h("a", { class: "button", id: "download", href: address, download: made.filename }, `Save ${made.filename}`)),
    h("pre", { tabindex: 0, "aria-label": made.filename || "Link" }, made.text.length > 20000 ? `${made.text.slice(0, 20000)}\n…` : made.text),
  );
  announce(`${made.filename || "The link"} is ready.`);
}
