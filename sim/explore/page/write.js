// @ts-check
// The scenario's text: written, checked as it is written, saved when that is said, and no change of others lost.

import { Refused } from "./api.js";
import { announce, h, replace } from "./dom.js";

const CHECK_AFTER_MS = 250;

export class WriteView {
  /** @type {import("./editor.js").Editor | null} */
  editor = null;
  #check = 0;
  #checking = new AbortController();
  /** Of the file in the editor. */
  #path = "";
  /** The file's text as somebody else has left it, while mine is not saved. @type {{text: string, version: string} | null} */
  #theirs = null;

  /** @param {HTMLElement} place @param {import("./app.js").Explorer} explorer */
  constructor(place, explorer) {
    this.explorer = explorer;
    this.head = h("div", { class: "title" });
    this.tools = h("div", { class: "controls" });
    this.note = h("p", { class: "about" });
    this.conflict = h("div", { role: "alert" });
    this.host = h("div", { class: "editor" });
    this.mistakes = h("ol", { class: "mistakes", "aria-live": "polite", "aria-label": "Mistakes" });
    replace(place, this.head, this.note, this.tools, this.conflict, h("div", { class: "writing" }, this.host, this.mistakes));
  }

  /** The open file, in the editor. */
  async draw() {
    const { explorer } = this;
    if (explorer.file === null) return;
    this.#tools();
    replace(this.note, explorer.file.why_not ? `It cannot be moved by hand: ${explorer.file.why_not}` : "");
    if (this.editor === null) {
      const [parts, schema, { Editor }] = await Promise.all([
        import("./vendor/codemirror.js"), explorer.server.ask("GET", "/api/schema"), import("./editor.js"),
      ]);
      this.editor ??= new Editor(parts, this.host, {
        schema, readOnly: explorer.server.readOnly,
        names: (path) => this.#names(path),
        changed: (text) => this.#changed(text),
      });
    }
    if (this.#path === explorer.file.path) this.editor.text = explorer.text;
    else {
      // neither what others have done to the file of before, nor its text by Ctrl-Z, belongs to this one
      this.#path = explorer.file.path;
      this.#theirs = null;
      this.#both();
      this.editor.begin(explorer.text);
    }
    this.#show(explorer.mistakes);
    const [first] = explorer.mistakes;
    if (first && explorer.scenario === null) this.editor.go(first.line, first.column);
  }

  /** Names of the file that may stand at a place. @param {string[]} path */
  #names(path) {
    const scenario = this.explorer.scenario;
    if (scenario === null) return [];
    const [top, , key, entry] = path;
    if (top === "orders" && key === "steps" && entry === "[]") return scenario.steps.map((step) => step.name);
    if (path[path.length - 1] === "node" || key === "also") return scenario.nodes.map((node) => node.name);
    return [];
  }

  /** @param {string} text */
  #changed(text) {
    this.explorer.write(text);
    this.#tools();
    clearTimeout(this.#check);
    this.#check = setTimeout(() => void this.#verify(), CHECK_AFTER_MS);
  }

  async #verify() {
    this.#checking.abort();
    this.#checking = new AbortController();
    const { signal } = this.#checking;
    try {
      await this.explorer.check(signal);
      this.#show(this.explorer.mistakes);
    } catch (error) {
      if (!signal.aborted) this.explorer.failed(error);
    }
  }

  /** @param {import("./editor.js").Mistake[]} mistakes */
  #show(mistakes) {
    this.editor?.show(mistakes);
    replace(
      this.mistakes,
      mistakes.length === 0 && h("li", { class: "good" }, "✓ no mistakes"),
      ...mistakes.map((each) => h(
        "li", {},
        h("button", { type: "button", on: { click: () => this.editor?.go(each.line, each.column) } }, `${each.line}:${each.column}`),
        h("span", { class: each.severity === "warning" ? "wait" : "bad" }, ` ${each.severity === "warning" ? "warning" : "error"}: `),
        each.message, each.remedy && h("i", {}, ` ${each.remedy}`),
      )),
    );
  }

  #tools() {
    const { explorer } = this;
    const { file } = explorer;
    if (file === null) return;
    const changed = explorer.text !== file.text;
    replace(this.head, h("h2", {}, explorer.scenario?.name ?? file.path), h("span", { class: "path" }, file.path, changed ? " · changed, not saved" : ""));
    if (explorer.server.readOnly) return;
    replace(
      this.tools,
      explorer.files.read_only ? null : h("button", { type: "button", class: "main", id: "save", disabled: !changed, on: { click: () => this.save() } }, "Save"),
      h("button", { type: "button", disabled: !changed, on: { click: () => this.#revert() } }, "Discard changes"),
      h("button", { type: "button", id: "play", disabled: explorer.scenario === null, on: { click: () => this.#play() } }, "Play"),
      explorer.files.read_only ? h("span", { class: "faint" }, "These files are read only: what you change can be played and exported, not saved.") : null,
    );
  }

  async #play() {
    await this.#verify();
    if (this.explorer.scenario === null) return;
    this.explorer.show("run");
    await this.explorer.replay();
  }

  #revert() {
    this.explorer.write(this.explorer.file?.text ?? "");
    if (this.editor) this.editor.text = this.explorer.text;
    this.#tools();
    void this.#verify();
  }

  /** @param {string} [base] the version that is written over, if it is not the one that was opened */
  async save(base) {
    const { explorer } = this;
    const { file } = explorer;
    if (file === null) return;
    let theirs = null;
    try {
      await explorer.save(base);
      announce("Saved.");
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 409) return explorer.failed(error);
      const there = error.body.version !== "";
      theirs = there ? await explorer.server.ask("GET", `/api/file?path=${encodeURIComponent(file.path)}`) : { text: "", version: "" };
      announce("Not saved: the file has changed meanwhile.");
    }
    if (this.#path !== file.path) return; // another one was opened meanwhile
    this.#theirs = theirs;
    this.#tools();
    this.#both();
  }

  /** Mine and theirs, while they differ. */
  #both() {
    const theirs = this.#theirs;
    if (theirs === null) return replace(this.conflict);
    const mine = this.explorer.text.split("\n");
    const lines = theirs.text.split("\n");
    const [first, mineUntil, theirsUntil] = between(mine, lines);
    const part = (/** @type {string[]} */ of, /** @type {number} */ until) => h("pre", {}, of.slice(first, until).join("\n") || "(nothing)");
    return replace(
      this.conflict,
      h(
        "section", { class: "conflict", "aria-label": "The file has changed meanwhile" },
        h("p", {}, h("b", {}, "Not saved: "), theirs.version ? `somebody else has changed this file since it was opened here, from line ${first + 1} on. Nothing is lost: choose.` : "somebody else has removed this file since it was opened here."),
        h("div", { class: "both" },
          h("figure", {}, h("figcaption", {}, "Here"), part(mine, mineUntil)),
          h("figure", {}, h("figcaption", {}, "In the file"), part(lines, theirsUntil))),
        h("div", { class: "controls" },
          h("button", { type: "button", id: "keep-mine", on: { click: () => this.save(theirs.version) } }, "Save what is here"),
          theirs.version && h("button", { type: "button", id: "take-theirs", on: { click: () => this.#takeTheirs(theirs) } }, "Take what is in the file"),
          h("span", { class: "faint" }, "What is taken out of the editor comes back with Ctrl-Z.")),
      ),
    );
  }

  /** @param {{text: string, version: string}} theirs */
  #takeTheirs(theirs) {
    const { explorer } = this;
    if (explorer.file === null) return;
    this.#theirs = null;
    explorer.drafts.delete(explorer.file.path);
    explorer.file = { ...explorer.file, text: theirs.text, version: theirs.version };
    explorer.write(theirs.text);
    if (this.editor) this.editor.text = theirs.text;
    this.#both();
    this.#tools();
    void this.#verify();
  }
}

/**
 * Where two texts differ.
 *
 * @param {string[]} one @param {string[]} other
 * @returns {[number, number, number]} the first line, and the line after the last in each
 */
export function between(one, other) {
  let first = 0;
  while (first < one.length && first < other.length && one[first] === other[first]) first += 1;
  let [a, b] = [one.length, other.length];
  while (a > first && b > first && one[a - 1] === other[b - 1]) [a, b] = [a - 1, b - 1];
  return [first, a, b];
}

