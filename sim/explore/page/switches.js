// @ts-check
// What may be otherwise than in the file: switches, and faults that are placed at points of the run.

import { counted, h } from "./dom.js";

/** @typedef {import("./app.js").Explorer} Explorer @typedef {import("./wire.js").Switch} Switch */

/** Which of the folded parts are open, by name. */
const open = { words: false, others: false };

/** @param {Explorer} explorer */
export function switches(explorer) {
  const every = explorer.scenario?.switches ?? [];
  if (every.length === 0 || explorer.fixed) return null;
  const isProtection = (/** @type {Switch} */ each) => each.name.startsWith("protection.");
  const ways = every.filter((each) => !isProtection(each));
  const own = every.filter((each) => isProtection(each) && each.of_twin);
  const others = every.filter((each) => isProtection(each) && !each.of_twin);
  open.others ||= others.some((each) => explorer.switches[each.name] !== undefined);
  return h(
    "fieldset", { class: "switches" },
    h("legend", {}, "Switches"),
    h("div", { class: "group", role: "group", "aria-label": "How it works" }, ways.map((each) => control(explorer, each))),
    own.length ? protections(explorer, "What this scenario is about", own) : null,
    folded("words", "What these change", h("dl", {}, ways.flatMap((each) => [h("dt", {}, each.label), h("dd", {}, each.about)]))),
    others.length ? folded("others", `${own.length ? "Other protections" : "Protections"}: ${others.length}`, protections(explorer, "Protections", others)) : null,
  );
}

/** @param {"words" | "others"} name @param {string} summary @param {HTMLElement} content */
function folded(name, summary, content) {
  const details = h("details", { on: { toggle: () => { open[name] = details.open; } } }, h("summary", {}, summary), content);
  details.open = open[name];
  return details;
}

/** Each with what it ensures, and what goes wrong without it. @param {Explorer} explorer @param {string} name @param {Switch[]} of */
function protections(explorer, name, of) {
  return h("ul", { class: "protections", "aria-label": name }, of.map((each) => h(
    "li", {}, control(explorer, each), h("p", { id: `about-${each.name}` }, each.about),
  )));
}

/** @param {Explorer} explorer @param {Switch} each */
function control(explorer, each) {
  const standard = explorer.standard(each);
  const value = explorer.switches[each.name] ?? standard;
  const changed = value !== standard;
  const id = `switch-${each.name}`;
  const attributes = { id, title: each.about, "aria-describedby": each.name.startsWith("protection.") ? `about-${each.name}` : null };
  const input = each.kind === "on_off"
    ? h("input", { ...attributes, type: "checkbox", role: "switch", class: "toggle", on: { change: () => explorer.set(each.name, input.checked ? "on" : "off") } })
    : h("select", { ...attributes, on: { change: () => explorer.set(each.name, input.value) } }, each.values.map((one) => h("option", { value: one }, one.replaceAll("_", " "))));
  if (each.kind === "on_off") input.checked = value === "on";
  else input.value = value;
  return h("label", { class: changed ? "changed" : null, for: id, title: each.about }, each.label, input);
}

/**
 * The points that a step's transaction came by: at each, something may be struck.
 *
 * @param {Explorer} explorer
 * @param {import("./wire.js").Card} card
 */
export function pointsOf(explorer, card) {
  const { run } = explorer;
  if (explorer.fixed || run === null || card.moment < 0) return null;
  const end = card.end_moment < 0 ? Infinity : card.end_moment;
  const here = run.arrivals.filter((each) => each.moment >= card.moment && each.moment <= end && (each.session || "") === card.session);
  return pointList(explorer, here, card.step);
}

/** Points of nobody's step: recovery's, the agents'. @param {Explorer} explorer */
export function otherPoints(explorer) {
  const { run } = explorer;
  if (explorer.fixed || run === null) return null;
  const sessions = new Set(run.cards.map((card) => card.session));
  return pointList(explorer, run.arrivals.filter((each) => !each.session || !sessions.has(each.session)), "the agents and recovery", true);
}

/** @param {Explorer} explorer @param {import("./wire.js").Arrival[]} arrivals @param {string} of @param {boolean} [named] */
function pointList(explorer, arrivals, of, named = false) {
  const known = new Map((explorer.scenario?.fault_points ?? []).map((each) => [each.point, each]));
  const offered = arrivals.filter((each) => known.get(each.point)?.deeds.length);
  if (offered.length === 0) return null;
  return h(
    "details", { class: named ? "points named" : "points" },
    h(
      "summary", { "aria-label": `Faults at points of ${of}`, title: `Place a fault: ${of} comes by ${counted(offered.length, "point")} of the protocol` },
      named ? `⚡ Faults at points of ${of}` : ["⚡", h("span", {}, " fault")],
    ),
    h("ol", {}, offered.map((each) => {
      const point = /** @type {import("./wire.js").Point} */ (known.get(each.point));
      const choice = h(
        "select",
        {
          "aria-label": `Fault at ${each.point}`, title: point.about,
          on: {
            focus: () => explorer.at(each.moment),
            change: () => choice.value && explorer.strike([...explorer.faults, faultAt(each, choice.value)]),
          },
        },
        h("option", { value: "" }, "no fault"), point.deeds.map((deed) => h("option", { value: deed }, deed)),
      );
      return h("li", { title: point.about }, h("code", {}, each.point.split(/(?<=[._(])/).flatMap((part) => [h("wbr"), part])), each.nth > 1 ? ` (${each.nth})` : null, point.about ? h("span", { class: "faint" }, point.about) : null, choice);
    })),
  );
}

/** @param {import("./wire.js").Arrival} arrival @param {string} deed @returns {import("./wire.js").Fault} */
function faultAt(arrival, deed) {
  return { at: arrival.point, do: deed, nth: arrival.nth, ...(arrival.session ? { session: arrival.session } : {}) };
}

/** The faults that the order has of its own, and those that are placed. @param {Explorer} explorer */
export function placed(explorer) {
  const own = explorer.base?.faults ?? [];
  if (own.length + explorer.faults.length === 0) return null;
  return h(
    "ul", { class: "placed", "aria-label": "Faults" },
    own.map((name) => h(
      "li", {}, `⚡ ${explorer.scenario?.faults[name] ?? name} `, h("span", { class: "faint" }, `of order ${explorer.listed} `), strikes(explorer, name) ? null : never(),
    )),
    explorer.faults.map((fault, at) => {
      const where = `${fault.do} at ${fault.at}${fault.session ? ` of ${fault.session}` : ""}`;
      return h(
        "li", {}, `⚡ ${where} `, strikes(explorer, `placed_${at + 1}`) ? null : never(),
        h("button", { type: "button", "aria-label": `Remove: ${where}`, on: { click: () => explorer.strike(explorer.faults.filter((_, other) => other !== at)) } }, "×"),
      );
    }),
  );
}

const never = () => h("b", {}, "never strikes: the run does not come by there ");

/** Whether a fault has struck, or has found nothing to strike. @param {Explorer} explorer @param {string} name */
function strikes({ run }, name) {
  return run === null || run.moments.some((each) => each.event === "fault" && each.text.includes(`fault ${name} `));
}
