// @ts-check
// The scenarios of the folder, by their folders, and which of them cannot be read.

import { h, replace } from "./dom.js";

const WIDE = matchMedia("(min-width: 64rem)");

export class Files {
  #words = "";

  /** @param {HTMLDetailsElement} place @param {import("./app.js").Explorer} explorer */
  constructor(place, explorer) {
    this.place = place;
    this.explorer = explorer;
    this.list = h("nav", { "aria-label": "Scenarios" });
    const search = h("input", {
      type: "search", placeholder: "Search", "aria-label": "Search scenarios", spellcheck: "false",
      on: { input: () => { this.#words = search.value; this.#draw(); } },
    });
    replace(place, h("summary", {}, "Scenarios"), search, this.list);
    const fit = () => { place.open = this.#beside; };
    WIDE.addEventListener("change", fit);
    fit();
    explorer.addEventListener("files", fit, { once: true });
    explorer.on(["files", "file", "view"], () => this.#draw());
  }

  /** Whether there is room for the list beside what is shown; a class has enough to look at. */
  get #beside() {
    return WIDE.matches && !this.explorer.files.present;
  }

  #draw() {
    const words = this.#words.toLowerCase().split(/\s+/).filter(Boolean);
    const files = this.explorer.files.files.filter((file) => {
      const text = `${file.path} ${file.name} ${file.about}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    /** @type {Map<string, typeof files>} */
    const folders = new Map();
    for (const file of files) {
      const folder = file.path.includes("/") ? file.path.slice(0, file.path.lastIndexOf("/")) : "";
      folders.set(folder, [...(folders.get(folder) ?? []), file]);
    }
    const open = ["run", "orders", "postgres", "edit"].includes(this.explorer.view) ? this.explorer.file?.path : null;
    replace(
      this.list,
      ...[...folders].flatMap(([folder, of]) => [
        folder ? h("h3", {}, folder) : null,
        h("ul", {}, of.map((file) => h("li", {}, this.#button(file, file.path === open)))),
      ]),
      files.length === 0 && h("p", { class: "empty" }, words.length ? "Nothing of that name." : "No scenario in this folder yet."),
    );
  }

  /** @param {import("./wire.js").FileEntry} file @param {boolean} current */
  #button(file, current) {
    return h(
      "button",
      {
        type: "button", class: file.error ? "broken" : null, title: file.error?.message ?? file.about, "aria-current": current ? "page" : null,
        on: {
          click: () => {
            if (!this.#beside) this.place.open = false;
            void this.explorer.open(file.path);
          },
        },
      },
      file.error ? "✗ " : null, file.name,
    );
  }
}
