// @ts-check
// A new scenario, begun from a template.

import { h, replace } from "./dom.js";

/** What most begin with. */
const FIRST = "two-writers";

/** @param {import("./app.js").Explorer} explorer */
export function newButton(explorer) {
  if (explorer.files.read_only || explorer.fixed) return null;
  return h("button", { type: "button", id: "new", on: { click: () => void choose(explorer).catch((error) => explorer.failed(error)) } }, "New scenario");
}

/** @param {import("./app.js").Explorer} explorer */
async function choose(explorer) {
  const { templates } = await explorer.server.ask("GET", "/api/templates");
  const name = h("input", { type: "text", id: "new-name", required: true, pattern: "[\\w.\\/\\-]+", value: "my_scenario" });
  const trouble = h("p", { class: "bad", role: "alert" });
  const first = Math.max(0, templates.findIndex((/** @type {any} */ template) => template.name === FIRST));
  const options = templates.map((/** @type {any} */ template, /** @type {number} */ at) => h(
    "label", { class: "option" },
    h("input", { type: "radio", name: "template", value: at, checked: at === first }),
    h("span", {}, h("b", {}, template.name), h("span", { class: "faint" }, ` ${template.about}`)),
  ));
  const form = h(
    "form", { method: "dialog" },
    h("h2", {}, "New scenario"),
    h("p", {}, h("label", { for: "new-name" }, "Name "), name, h("span", { class: "faint" }, ".twopc.yaml")),
    h("fieldset", {}, h("legend", {}, "Begin with"), options), trouble,
    h("div", { class: "controls" }, h("button", { type: "submit", class: "main" }, "Create"), h("button", { type: "button", on: { click: () => dialog.close() } }, "Cancel")),
  );
  const dialog = h("dialog", { "aria-label": "New scenario", on: { close: () => dialog.remove() } }, form);
  form.addEventListener("submit", async (/** @type {Event} */ event) => {
    event.preventDefault();
    const picked = /** @type {HTMLInputElement} */ (form.querySelector("input[name=template]:checked"));
    const path = `${name.value.replace(/\.twopc\.yaml$/, "")}.twopc.yaml`;
    try {
      await explorer.server.tell("PUT", "/api/file", { path, text: templates[Number(picked.value)].text, base_version: "" });
      await explorer.list();
      dialog.close();
      await explorer.open(path, { view: "edit" });
    } catch (error) {
      replace(trouble, error instanceof Error ? error.message : String(error));
    }
  });
  document.body.append(dialog);
  dialog.showModal();
  name.select();
}
