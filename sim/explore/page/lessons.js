// @ts-check
// Lessons, predict first: what comes behind a question is shown once it is answered, and explained by the run.

import { announce, counted, h, replace } from "./dom.js";
import { fromHtml } from "./html.js";
import { lanes, reasons } from "./lanes.js";

/** Given answers, kept for this tab: `1.2` → what was chosen or typed. */
const KEPT = "twopc-answers";

/** A text that cannot be played. */
class Unplayable extends Error {}

export class LessonsView {
  /** @type {any[] | null} */
  #lessons = null;
  /** @type {Record<string, number | string>} */
  #given = JSON.parse(sessionStorage.getItem(KEPT) ?? "{}");
  /** What the runs said, by question. @type {Map<string, any>} */
  #answers = new Map();
  /** While it is presented: how many parts are shown, by lesson. @type {Map<number, number>} */
  #shown = new Map();

  /** @param {HTMLElement} place @param {import("./app.js").Explorer} explorer */
  constructor(place, explorer) {
    this.place = place;
    this.explorer = explorer;
  }

  async draw() {
    const { explorer } = this;
    this.#lessons ??= await explorer.server.ask("GET", "/api/lessons").then((answer) => answer.lessons ?? answer);
    const number = Number(explorer.view.split(":")[1] ?? 0);
    const lesson = this.#lessons?.find((each) => each.number === number);
    if (lesson) await this.#lesson(lesson);
    else this.#list();
  }

  #list() {
    const items = (this.#lessons ?? []).map((lesson) => {
      const asked = questionsOf(lesson.parts).length;
      const answered = Object.keys(this.#given).filter((key) => key.startsWith(`${lesson.number}.`)).length;
      return h(
        "li", {},
        h("button", { type: "button", on: { click: () => this.explorer.show(`lessons:${lesson.number}`) } },
          h("b", {}, `${lesson.number}. ${lesson.title}`), h("span", {}, lesson.teaches),
          h("span", { class: "faint" }, `${counted(lesson.minutes, "minute")}${asked ? ` · ${answered} of ${counted(asked, "question")} answered` : ""}`)),
      );
    });
    replace(
      this.place, h("h2", {}, "Lessons"),
      h("p", { class: "lead" }, "Each takes ten minutes at most. First say what you expect; then see what comes of it, and why."),
      h("ol", { class: "lessons" }, items),
    );
  }

  /** @param {any} lesson */
  async #lesson(lesson) {
    const { present } = this.explorer.files;
    const body = h("article", { class: "lesson" });
    const others = this.#lessons ?? [];
    const step = (/** @type {number} */ by, /** @type {string} */ word) => {
      const other = others[others.indexOf(lesson) + by];
      return other ? h("button", { type: "button", on: { click: () => this.explorer.show(`lessons:${other.number}`) } }, `${word}: ${other.title}`) : null;
    };
    replace(
      this.place,
      h("p", {}, h("button", { type: "button", on: { click: () => this.explorer.show("lessons") } }, "All lessons")),
      h("h2", {}, `${lesson.number}. ${lesson.title}`),
      h("p", { class: "about" }, `${lesson.teaches} (${counted(lesson.minutes, "minute")})`),
      lesson.needs && h("div", { class: "needs faint" }, fromHtml(lesson.needs)),
      body,
    );
    await this.#parts(lesson, body, 0);
    body.after(h("div", { class: "controls ends" }, step(-1, "Before"), step(1, "Next"), present ? h("span", { class: "faint" }, h("kbd", {}, "→"), " next, ", h("kbd", {}, "←"), " back") : null));
  }

  /**
   * The parts from one on, up to the next question that is not answered.
   *
   * @param {any} lesson @param {HTMLElement} body @param {number} from
   */
  async #parts(lesson, body, from) {
    const limit = this.explorer.files.present ? this.#shown.get(lesson.number) ?? 1 : Infinity;
    for (let at = from; at < lesson.parts.length && at < limit; at += 1) {
      const part = lesson.parts[at];
      body.append(await this.#part(lesson, part, () => void this.#parts(lesson, body, at + 1)));
      if (part.kind === "question" && this.#given[keyOf(lesson, part)] === undefined) {
        body.append(h("p", { class: "faint rest" }, "The lesson goes on when you have answered."));
        return;
      }
    }
  }

  /** One part further, or back, while it is presented. @param {-1 | 1} by */
  async turn(by) {
    const lesson = this.#lessons?.find((each) => `lessons:${each.number}` === this.explorer.view);
    if (lesson === undefined) return;
    const shown = (this.#shown.get(lesson.number) ?? 1) + by;
    this.#shown.set(lesson.number, Math.max(1, Math.min(lesson.parts.length, shown)));
    await this.draw();
    const last = this.place.querySelector(".lesson")?.lastElementChild;
    last?.scrollIntoView({ block: by > 0 ? "start" : "nearest" });
  }

  /** @param {any} lesson @param {any} part @param {() => void} goOn @returns {Promise<Element>} */
  async #part(lesson, part, goOn) {
    switch (part.kind) {
      case "text":
        return h("div", { class: "prose" }, fromHtml(part.html));
      case "file":
        return h("figure", { class: "file" }, h("figcaption", {}, part.name, " ", this.#opener(part.name, part.text)), h("pre", { tabindex: 0, "aria-label": part.name }, part.text));
      case "change":
        return h("figure", { class: "file" }, h("figcaption", {}, `${part.name}, changed `, this.#opener(part.name, part.text)), diff(part.diff));
      case "run":
        return this.#runPart(part);
      case "terminal":
        return h("figure", { class: "file" }, h("figcaption", {}, "In a terminal"), h("pre", { tabindex: 0, "aria-label": "Commands" }, part.commands.map((/** @type {string} */ each) => `$ ${each}`).join("\n")));
      case "question":
        return this.#question(lesson, part, goOn);
      default: {
        const inner = h("details", { class: "exercise" }, h("summary", {}, "Answer"));
        for (const each of part.parts ?? []) inner.append(await this.#part(lesson, each, () => {}));
        return inner;
      }
    }
  }

  /** @param {string} name @param {string} text @param {any} [how] */
  #opener(name, text, how) {
    if (this.explorer.fixed) return null;
    return h("button", { type: "button", on: { click: () => void this.explorer.openText(name, text, how) } }, "Open it");
  }

  // -- runs --------------------------------------------------------------------------------------

  /** @param {any} part */
  #runPart(part) {
    const known = part.text !== undefined || this.explorer.files.files.some((file) => file.path === part.file);
    const command = h("pre", {}, `$ ${part.command}`);
    if (!known || this.explorer.fixed) return h("figure", { class: "file" }, command);
    const result = h("div", { "aria-live": "polite" });
    const button = h("button", { type: "button", on: { click: async () => {
      button.disabled = true;
      try {
        replace(result, await this.#played({ file: part.file, text: part.text, order: part.order ?? "", steps: [], without: [] }));
      } catch (error) {
        replace(result, h("p", { class: "bad" }, error instanceof Error ? error.message : String(error)));
      }
      button.disabled = false;
    } } }, "Play it here");
    return h("figure", { class: "file" }, h("figcaption", {}, button), command, result);
  }

  /**
   * The timeline of an order of a lesson's file.
   *
   * @param {{file: string, text?: string, order: string, steps: any[], without: string[]}} of
   */
  async #played(of) {
    const { server } = this.explorer;
    const content = of.text === undefined
      ? await server.ask("GET", `/api/file?path=${encodeURIComponent(of.file)}`)
      : await server.ask("POST", "/api/check", { path: of.file, text: of.text });
    const { scenario } = content;
    if (scenario === null) throw new Unplayable(content.errors.find((/** @type {any} */ each) => each.severity === "error")?.message ?? content.why_not);
    const named = of.order ? scenario.orders.find((/** @type {any} */ each) => each.name === of.order) : scenario.orders[0];
    if (named === undefined && !of.steps.length) throw new Unplayable(`${of.file} has no order '${of.order}'`);
    // steps of a question are an order of their own, which has nothing of those of the file
    const [order, listed] = of.steps.length ? [of.steps, ""] : [named.steps, named.name];
    const switches = Object.fromEntries(of.without.map((name) => [`protection.${name}`, "off"]));
    const { run } = await server.ask("POST", "/api/play", { path: of.file, text: of.text, order, listed, switches, faults: [] });
    const broken = run.invariants.filter((/** @type {any} */ each) => !each.holds);
    return h(
      "div", { class: "played" },
      h("p", { class: "outcome" }, run.outcome),
      broken.map((/** @type {any} */ each) => h("p", { class: "caught" }, h("b", {}, `✗ ${each.name}: `), each.text)),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Timeline" }, lanes(run, { sessions: scenario.sessions, fixed: true })),
      of.text === undefined ? null : h("p", {}, this.#opener(of.file, of.text, { order, listed, switches })),
    );
  }

  /** The timeline of a question; why there is none: its file may be wrong at this place of the lesson. @param {any} question */
  async #shownRun(question) {
    try {
      return await this.#played(question);
    } catch (error) {
      if (!(error instanceof Unplayable)) throw error;
      return h("p", { class: "faint" }, `The file is not played as it stands here: ${error.message}`);
    }
  }

  // -- questions ---------------------------------------------------------------------------------

  /** @param {any} lesson @param {any} question @param {() => void} goOn */
  async #question(lesson, question, goOn) {
    const key = keyOf(lesson, question);
    const place = h("section", { class: "question", "aria-label": `Question ${question.number}` });
    if (this.#given[key] !== undefined) {
      await this.#answered(place, lesson, question);
      return place;
    }
    const name = `question-${key}`;
    const typed = h("input", { type: "text", name, "aria-label": "Your answer", required: true, autocomplete: "off" });
    const form = h(
      "form", {},
      h("div", { class: "ask" }, fromHtml(question.html)),
      question.choices?.length
        ? h("ul", { class: "choices" }, question.choices.map((/** @type {string} */ choice, /** @type {number} */ at) => h(
          "li", {}, h("label", {}, h("input", { type: "radio", name, value: at, required: true }), h("span", {}, fromHtml(choice))),
        )))
        : h("p", {}, typed),
      h("button", { type: "submit", class: "main" }, "That is what I expect"),
    );
    form.addEventListener("submit", async (/** @type {Event} */ event) => {
      event.preventDefault();
      const given = question.choices?.length ? Number(new FormData(form).get(name)) : typed.value.trim();
      this.#given[key] = given;
      sessionStorage.setItem(KEPT, JSON.stringify(this.#given));
      try {
        await this.#answered(place, lesson, question);
      } catch (error) {
        delete this.#given[key];
        return this.explorer.failed(error);
      }
      place.parentElement?.querySelector(".rest")?.remove();
      place.focus();
      goOn();
    });
    replace(place, form);
    return place;
  }

  /** What was said, what is so, and why. @param {HTMLElement} place @param {any} lesson @param {any} question */
  async #answered(place, lesson, question) {
    const key = keyOf(lesson, question);
    const given = this.#given[key];
    const answer = this.#answers.get(key) ?? await this.explorer.server.ask("GET", `/api/lessons/answer?lesson=${lesson.number}&question=${question.number}`);
    this.#answers.set(key, answer);
    const right = answer.right === null ? String(given) === String(answer.value) : given === answer.right;
    place.tabIndex = -1;
    const choices = (question.choices ?? []).map((/** @type {string} */ choice, /** @type {number} */ at) => h(
      "li", { class: at === answer.right ? "right" : at === given ? "wrong" : "faint" },
      h("span", { class: "mark", "aria-hidden": "true" }, at === answer.right ? "✓" : at === given ? "✗" : ""), h("span", {}, fromHtml(choice),
        at === given ? h("span", { class: "unseen" }, ", your answer") : null, at === answer.right ? h("span", { class: "unseen" }, ", it is so") : null,
        at === given && !right && answer.choices?.[at]?.message ? h("p", { class: "because" }, answer.choices[at].message) : null),
    ));
    const runs = question.text && !this.explorer.fixed ? await this.#shownRun(question) : null;
    replace(
      place,
      h("div", { class: "ask" }, fromHtml(question.html)),
      choices.length ? h("ul", { class: "choices answered" }, choices) : h("p", {}, `You expected ${given}; it is `, h("b", {}, answer.value), "."),
      h("p", { class: right ? "verdict good" : "verdict bad" }, right ? "✓ As you expected." : "✗ Not as you expected."),
      answer.because || answer.however ? reasons(answer) : null,
      answer.why && h("div", { class: "prose" }, fromHtml(answer.why)),
      runs && h("details", { open: !right }, h("summary", {}, "The run"), runs),
    );
    announce(right ? "As you expected." : "Not as you expected.");
  }
}

/** @param {any} lesson @param {any} question */
const keyOf = (lesson, question) => `${lesson.number}.${question.number}`;

/** @param {any[]} parts @returns {any[]} */
const questionsOf = (parts) => parts.flatMap((part) => (part.kind === "question" ? [part] : questionsOf(part.parts ?? [])));

/** @param {string} text */
function diff(text) {
  return h("pre", { class: "diff", tabindex: 0, "aria-label": "Change" }, text.split("\n").map((line) => h("span", { class: line.startsWith("+") ? "good" : line.startsWith("-") ? "bad" : null }, `${line}\n`)));
}
