// @ts-check
// What is open and what is shown of it. Views listen; whatever they change, they change here.

import { Lost, Refused } from "./api.js";
import { announce, listed } from "./dom.js";
import { gapBeside, moved } from "./order.js";
import { itemName, sameOrder } from "./wire.js";

/**
 * What can be seen: `files`, `file` (another is open, or its text has changed), `play` (something is being
 * played), `run` (there is a new run), `moment`, `view`, `fault` (something went wrong that nobody asked for).
 *
 * @typedef {"files" | "file" | "play" | "run" | "moment" | "view" | "fault"} Seen
 */

export class Explorer extends EventTarget {
  /** @type {import("./wire.js").FileListing} */
  files = { root: "", files: [], present: false, read_only: false };
  /** @type {import("./wire.js").FileContent | null} */
  file = null;
  /** What is played: the text of the file, or what the editor holds. */
  text = "";
  /** What `check` has found in the text. @type {import("./wire.js").Problem[]} */
  mistakes = [];
  /** Texts that are not saved, by path. @type {Map<string, {text: string, base: string}>} */
  drafts = new Map();
  /** @type {import("./wire.js").Item[]} */
  order = [];
  /** The listed order that it is, or that it was made of: with its faults, its isolation, and its cell; empty: none. */
  listed = "";
  /** The name of the listed order that is shown; empty if it is none of them. */
  chosen = "";
  /** @type {Record<string, string>} */
  switches = {};
  /** @type {import("./wire.js").Fault[]} */
  faults = [];
  /** @type {import("./wire.js").Run | null} */
  run = null;
  /** What the last change has changed. */
  compared = "";
  /** Why nothing could be played. */
  trouble = "";
  /** Index of the moment that is looked at. */
  moment = 0;
  view = "";
  playing = false;
  /** @type {(import("./wire.js").Variant & {chosen: string})[]} */
  #past = [];
  /** What was played last. @type {import("./wire.js").Variant | null} */
  #shown = null;
  /** What is played after what is being played. @type {{compare: boolean} | null} */
  #next = null;
  #opening = new AbortController();
  #stopping = new AbortController();

  /** @param {import("./api.js").Source} server */
  constructor(server) {
    super();
    this.server = server;
  }

  /** @param {Seen} what @param {any} [detail] */
  tell(what, detail) {
    this.dispatchEvent(new CustomEvent(what, { detail }));
  }

  /** @param {Seen | Seen[]} what @param {(detail: any) => void} listener */
  on(what, listener) {
    for (const each of [what].flat()) this.addEventListener(each, (event) => listener(/** @type {CustomEvent} */ (event).detail));
  }

  get scenario() {
    return this.file?.scenario ?? null;
  }

  get fixed() {
    return this.server.readOnly;
  }

  /** @returns {import("./wire.js").Variant} */
  get variant() {
    return { order: this.order, listed: this.listed, switches: this.switches, faults: this.faults };
  }

  /** The files; which of them are broken is known a little later. */
  async list() {
    this.files = await this.server.ask("GET", "/api/files");
    this.tell("files");
    void this.#examine();
  }

  async #examine() {
    try {
      this.files = await this.server.ask("GET", "/api/files?checked=1");
      this.tell("files");
    } catch (error) {
      this.failed(error);
    }
  }

  // -- files -------------------------------------------------------------------------------------

  /**
   * Open a file, and play it.
   *
   * @param {string} path
   * @param {Partial<import("./wire.js").Variant> & {view?: string}} [how]
   */
  async open(path, how = {}) {
    this.#opening.abort();
    this.#opening = new AbortController();
    const { signal } = this.#opening;
    try {
      const file = await this.server.ask("GET", `/api/file?path=${encodeURIComponent(path)}`, undefined, { signal });
      if (signal.aborted) return;
      await this.take(file);
    } catch (error) {
      if (!signal.aborted) this.failed(error);
      return;
    }
    this.begin(how);
    this.show(how.view ?? (this.scenario === null ? "edit" : "run"));
    if (this.scenario !== null) await this.play();
  }

  /**
   * A file's content as the server has it; a text that was not saved is kept.
   *
   * @param {import("./wire.js").FileContent} file
   */
  async take(file) {
    this.file = file;
    this.text = file.text;
    this.mistakes = file.errors;
    this.run = null;
    this.compared = "";
    this.trouble = "";
    const draft = this.drafts.get(file.path);
    if (draft !== undefined) {
      this.file = { ...file, version: draft.base };
      this.text = draft.text;
      await this.check();
    }
    this.tell("file");
  }

  /**
   * Open a text that is in no file yet, or in another form.
   *
   * @param {string} path
   * @param {string} text
   * @param {Partial<import("./wire.js").Variant>} [how]
   */
  async openText(path, text, how = {}) {
    const listed = this.files.files.some((file) => file.path === path);
    if (listed) return this.open(path, how);
    const content = await this.server.ask("POST", "/api/check", { path, text });
    // there is no file of it: saving makes one
    this.drafts.set(path, { text, base: "" });
    await this.take({ ...content, text: "", version: "" });
    this.begin(how);
    this.show("run");
    return this.play();
  }

  /** What is played first. @param {Partial<import("./wire.js").Variant>} [how] */
  begin(how = {}) {
    const orders = this.scenario?.orders ?? [];
    const first = orders.find((each) => each.name === how.listed) ?? (how.order ? undefined : orders[0]);
    this.listed = first?.name ?? "";
    this.order = how.order ?? first?.steps ?? [];
    this.#name();
    this.switches = how.switches ?? {};
    this.faults = how.faults ?? [];
    this.#past = [];
    this.#shown = null;
  }

  /** The listed order of which what is shown was made. */
  get base() {
    return this.scenario?.orders.find((each) => each.name === this.listed);
  }

  /** How a switch stands in that order. @param {import("./wire.js").Switch} of */
  standard(of) {
    return this.base?.switches[of.name] ?? of.value;
  }

  /** Whether it is another listed order says the run. */
  #name() {
    this.chosen = this.base && sameOrder(this.base.steps, this.order) ? this.listed : "";
  }

  /** What the editor holds. @param {string} text */
  write(text) {
    const { file } = this;
    if (file === null) return;
    this.text = text;
    if (text === file.text) this.drafts.delete(file.path);
    else this.drafts.set(file.path, { text, base: this.drafts.get(file.path)?.base ?? file.version });
    this.tell("files");
  }

  /** Look for mistakes in the text. @param {AbortSignal} [signal] */
  async check(signal) {
    const { file, text } = this;
    if (file === null) return;
    const checked = await this.server.ask("POST", "/api/check", { path: file.path, text }, { signal });
    if (this.file?.path !== file.path || this.text !== text) return;
    this.mistakes = checked.errors;
    this.file = { ...this.file, scenario: checked.scenario, why_not: checked.why_not };
  }

  /** Write the text into its file. @param {string} [base] the version that it takes the place of */
  async save(base) {
    const { file, text } = this;
    if (file === null) return;
    const asked = { path: file.path, text, base_version: base ?? this.drafts.get(file.path)?.base ?? file.version };
    const saved = await this.server.tell("PUT", "/api/file", asked);
    const draft = this.drafts.get(file.path);
    if (draft?.text === text) this.drafts.delete(file.path);
    else if (draft) draft.base = saved.version; // written while it was saved
    if (this.file?.path === file.path) this.file = { ...this.file, text, version: saved.version };
    await this.list();
  }

  // -- what is shown -----------------------------------------------------------------------------

  /** @param {string} view */
  show(view) {
    this.view = view;
    this.tell("view");
  }

  /** @param {number} at index of a moment */
  at(at) {
    const moment = Math.max(0, Math.min((this.run?.moments.length ?? 1) - 1, at));
    if (moment === this.moment) return;
    this.moment = moment;
    this.tell("moment");
  }

  /** @param {unknown} error what nobody expected */
  failed(error) {
    const stranger = error instanceof Refused && error.kind === "token";
    const lacking = "linked" in this.server && !this.server.linked;
    const text = stranger
      ? `${lacking ? "This address lacks the secret of its server" : "The server does not take this link: it was started anew"}. Open the link that it has printed.`
      : error instanceof Error ? error.message : String(error);
    if (!(error instanceof Refused) && !(error instanceof Lost)) console.error(error);
    this.tell("fault", text);
  }

  // -- playing -----------------------------------------------------------------------------------

  /**
   * Play what is chosen now, and say what has become otherwise than in what was shown before. While something
   * is being played, what is chosen last comes next: what was chosen in between is left out.
   */
  async play({ compare = false } = {}) {
    this.#next = { compare: compare || (this.#next?.compare ?? false) };
    if (this.playing) return;
    this.playing = true;
    this.tell("play");
    try {
      while (this.#next !== null) {
        const { compare: compares } = this.#next;
        this.#next = null;
        await this.#playOnce(compares);
      }
    } finally {
      this.playing = false;
      this.tell("run");
    }
  }

  /** @param {boolean} compare */
  async #playOnce(compare) {
    const { file, variant } = this;
    if (file === null) return;
    const before = compare ? this.#shown : undefined;
    const { signal } = this.#stopping = new AbortController();
    try {
      const answer = await this.server.ask("POST", "/api/play", { path: file.path, text: this.text, ...variant, before }, { signal });
      if (this.file?.path !== file.path) return;
      this.run = answer.run;
      this.#shown = variant;
      if (this.#next === null && sameOrder(this.order, variant.order)) {
        this.chosen = answer.listed;
        this.listed = answer.listed || this.listed;
      }
      this.compared = answer.compared ?? "";
      this.trouble = "";
      this.moment = lastOf(answer.run);
    } catch (error) {
      if (signal.aborted) {
        this.trouble = "Stopped. What is shown is what was played before.";
        return;
      }
      if (!(error instanceof Refused) || error.kind === "token") return this.failed(error);
      this.trouble = error.message;
      if (error.body?.errors) this.mistakes = error.body.errors;
    }
  }

  /** The text was changed: steps and orders may be others. */
  async replay() {
    const { base } = this;
    const steps = new Set(this.scenario?.steps.map((each) => each.name));
    const known = this.order.every((item) => typeof item !== "string" || steps.has(item));
    if ((base && this.chosen) || !known || this.order.length === 0) this.begin({ listed: base?.name, switches: this.switches, faults: this.faults });
    else this.listed = base?.name ?? "";
    await this.play();
  }

  /** Stop what is being played: the server ends what nobody waits for. */
  stop() {
    this.#next = null;
    this.#stopping.abort();
  }

  #keep() {
    this.#past.push({ ...this.variant, chosen: this.chosen });
  }

  get canUndo() {
    return this.#past.length > 0;
  }

  async undo() {
    const past = this.#past.pop();
    if (past === undefined) return;
    Object.assign(this, past);
    announce("Undone.");
    await this.play({ compare: true });
  }

  /** @param {import("./wire.js").Item} item */
  sessionOf = (item) => {
    if (typeof item === "string") return this.scenario?.steps.find((each) => each.name === item)?.session ?? "";
    return typeof item.rollback === "string" ? item.rollback : "";
  };

  /**
   * Put an entry before the one of an index.
   *
   * @param {number} from
   * @param {number} gap
   */
  async move(from, gap) {
    const { order, at, along } = moved(this.order, from, gap, this.sessionOf);
    if (sameOrder(order, this.order)) return;
    const where = at === 0 ? `before ${itemName(order[1])}` : `behind ${itemName(order[at - 1])}`;
    const with_ = along.length ? `; ${listed(along.map(itemName))} moved with it` : "";
    announce(`${itemName(order[at])} moved ${where}, place ${at + 1} of ${order.length}${with_}.`);
    await this.takeOrder(order);
  }

  /** @param {number} from @param {-1 | 1} by */
  async nudge(from, by) {
    const gap = gapBeside(this.order, from, by, this.sessionOf);
    if (gap === null) announce(`${itemName(this.order[from])} cannot be moved ${by < 0 ? "earlier" : "later"}.`);
    else await this.move(from, gap);
  }

  /** @param {string} name a listed order */
  async choose(name) {
    const order = this.scenario?.orders.find((each) => each.name === name);
    if (order !== undefined) await this.takeOrder(order.steps, name);
  }

  /** @param {import("./wire.js").Item[]} order @param {string} [listed] of which it is made */
  async takeOrder(order, listed = this.listed) {
    this.#keep();
    this.order = order;
    this.listed = listed;
    this.#name();
    await this.play();
  }

  /** @param {string} name a switch @param {string} value */
  async set(name, value) {
    this.#keep();
    const of = this.scenario?.switches.find((each) => each.name === name);
    const { [name]: _, ...others } = this.switches;
    this.switches = of && value === this.standard(of) ? others : { ...others, [name]: value };
    await this.play({ compare: true });
  }

  /** @param {import("./wire.js").Fault[]} faults */
  async strike(faults) {
    this.#keep();
    this.faults = faults;
    await this.play({ compare: true });
  }
}

/** The moment that is looked at first: the end, or the one in which an order stops being possible. @param {import("./wire.js").Run} run */
function lastOf({ moments, possible }) {
  return possible === true ? moments.length - 1 : Math.max(0, moments.findLastIndex((each) => each.step !== ""));
}
