// @ts-check
// The timeline: a lane for each session and one for the agents, time downwards, a card for each step.

import { h } from "./dom.js";

/** @typedef {import("./wire.js").Run} Run @typedef {import("./wire.js").Card} Card @typedef {import("./wire.js").Agent} Agent */

/** How a card is to be read. @type {Record<string, string>} */
const STYLES = { refused: "bad", failed: "bad", skipped: "faint", not_played: "faint", waiting: "wait" };
/** @type {Record<string, string>} */
const AGENT_STYLES = { suppress: "faint", skip: "bad", echo: "bad", merge_conflict: "bad" };

/**
 * A row of the timeline: a step, or something that the agents did.
 *
 * @typedef {object} Row
 * @property {Card} [card]
 * @property {Agent} [agent]
 * @property {number} until the last row that it reaches into: it was not over before
 */

/**
 * What stands in which row: the entries of the order, and between them what the agents did meanwhile.
 *
 * @param {Run} run
 * @returns {Row[]}
 */
export function rowsOf(run) {
  const agents = [...run.agents];
  // on servers there are no moments
  const timed = run.moments.length === 0;
  const begun = (/** @type {Card | Agent | undefined} */ of) => {
    if (of === undefined || ("state" in of && of.state === "not_played")) return -1;
    return timed ? ("began_ms" in of ? of.began_ms : of.at_ms) : of.moment;
  };
  /** @type {Row[]} */
  const rows = [];
  for (const card of run.cards) {
    while (begun(card) >= 0 && agents.length && begun(agents[0]) < begun(card)) rows.push({ agent: agents.shift(), until: 0 });
    // that agents deliver what is left after the last step is seen by what they deliver
    if (card.item >= 0 || card.state !== "ok") rows.push({ card, until: 0 });
  }
  rows.push(...agents.map((agent) => ({ agent, until: 0 })));
  rows.forEach((row, at) => {
    row.until = at;
    const { card } = row;
    if (card === undefined || (!card.waits_for && card.state !== "waiting")) return;
    const ended = timed ? card.ended_ms ?? -1 : card.end_moment;
    const end = ended < 0 ? Infinity : ended;
    rows.forEach((other, place) => {
      const since = begun(other.card ?? other.agent);
      if (place > at && since >= 0 && since < end) row.until = place;
    });
  });
  return rows;
}

/**
 * Draw it.
 *
 * @param {Run} run
 * @param {{sessions: import("./wire.js").Session[], fixed: boolean, under?: (card: Card) => any}} scene fixed: nothing
 *   can be moved; under: what is put under a card besides its reasons
 * @returns {HTMLElement}
 */
export function lanes(run, scene) {
  const rows = rowsOf(run);
  const places = scene.sessions.map((each) => each.name);
  const agents = rows.some((row) => row.agent || !places.includes(row.card?.session ?? ""));
  const heads = scene.sessions.map((each) => h(
    "div", { class: "head" }, h("b", {}, each.name), h("span", {}, ` at ${[each.node, ...each.also].join(", ")}`),
  ));
  if (agents) heads.push(h("div", { class: "head" }, h("b", {}, "agents")));
  const cut = run.possible === true ? -1 : rows.findIndex((row) => row.card?.item === /** @type {any} */ (run.possible).at);
  // a server's clock says when the run began; what counts is since when
  const since = run.moments.length ? 0 : run.cards[0]?.began_ms ?? 0;
  // what tells where it stops has a row of its own
  const lines = rows.map((_, at) => (cut >= 0 && at >= cut ? at + 3 : at + 2));
  const items = rows.map((row, at) => {
    const lane = places.indexOf(row.card?.session ?? "");
    const vars = { lane: lane < 0 ? places.length + 2 : lane + 2, row: lines[at], span: lines[row.until] - lines[at] + 1 };
    const number = run.possible !== true && row.card ? row.card.item >= run.possible.at : false;
    return item(row, vars, number, since, scene);
  });
  const rails = heads.map((_, at) => h("div", { class: "rail", "aria-hidden": "true", vars: { lane: at + 2 } }));
  return h(
    "div", { class: `lanes${scene.fixed ? " fixed" : ""}${agents ? " with-agents" : ""}${heads.length > 3 ? " many" : ""}`, vars: { lanes: scene.sessions.length, rows: rows.length + 2 } },
    h("div", { class: "head ms", "aria-hidden": "true" }, "ms"), ...heads, ...rails,
    h("ol", { "aria-label": "Steps in the order in which they are played" }, ...items),
    cut >= 0 && h("p", { class: "cut", vars: { row: cut + 2 } }, h("b", {}, "✗ not possible from here: "), /** @type {any} */ (run.possible).reason),
  );
}

/** @param {Row} row @param {Record<string, number>} vars @param {boolean} beyond @param {number} since @param {{fixed: boolean, under?: (card: Card) => any}} scene */
function item(row, vars, beyond, since, scene) {
  const { card, agent } = row;
  const style = card ? STYLES[card.state] ?? "" : AGENT_STYLES[agent?.kind ?? ""] ?? "note";
  const classes = ["item", style, beyond && "beyond", vars.span > 1 && "long", card && ended(card)];
  const at = card ? (card.state === "not_played" ? null : card.began_ms) : agent?.at_ms;
  return h(
    "li", { class: classes.filter(Boolean).join(" "), vars },
    h("span", { class: "ms", "aria-hidden": "true" }, at === null || at === undefined ? "" : ms(at - since)),
    card ? stepCard(card, style, scene) : agentCard(/** @type {Agent} */ (agent)),
  );
}

/** A transaction that ends well is worth a colour. @param {Card} card */
export const ended = (card) => (card.text === "commit" && (card.state === "ok" || card.state === "waited") ? "good" : "");

/** @param {number} value */
export const ms = (value) => (value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString("en"));

/** @param {Card} card @param {string} style @param {{fixed: boolean, under?: (card: Card) => any}} scene */
function stepCard(card, style, scene) {
  const movable = !scene.fixed && card.item >= 0;
  const face = h(
    "div",
    {
      class: "card", role: "button", tabindex: -1, data: card.item >= 0 ? { item: card.item, key: card.step } : {},
      "aria-describedby": movable ? "move-help" : null, "aria-roledescription": movable ? "movable step" : null,
    },
    movable && h("span", { class: "grip", "aria-hidden": "true" }),
    h("span", { class: "call" }, h("b", {}, card.step), card.text && card.text !== card.step ? [" ", h("code", {}, card.text)] : null),
    card.waits_for ? h("span", { class: "waits" }, glass(), ` waits for ${card.waits_for}`) : null,
    card.result && card.result !== "✓" ? resultOf(card, style || ended(card)) : null,
  );
  const because = card.result.includes(card.because) ? "" : card.because;
  const why = because || card.however ? reasons({ because, however: card.however }) : null;
  return [
    face,
    style === "bad" || card.waits_for ? why : null,
    scene.under?.(card),
  ];
}

/** `✗ refused: version_mismatch` of what has words behind it; what went well is short. @param {string} result */
export const headOf = (result) => result.match(/^(✗ [^:]+(?:: [\w ]+)?)(?:: .*)?$/s)?.[1] ?? result;

/** What came of it, and its words: `✗ refused: version_mismatch: account has changed …`. @param {Card} card @param {string} style */
function resultOf(card, style) {
  const head = headOf(card.result);
  const more = card.result.slice(head.length).replace(/^: /, "");
  const broken = head.split(/(?<=_)/).flatMap((part) => [h("wbr"), part]);
  return [h("span", { class: `result ${style}` }, broken), more ? h("span", { class: "words" }, more) : null];
}

/** @param {{because: string, however: string}} of */
export function reasons(of) {
  return h(
    "div", { class: "why" },
    of.because && h("p", {}, h("i", {}, "because "), of.because),
    of.however && h("p", { class: "however" }, h("i", {}, "however "), of.however),
  );
}

/** @param {Agent} agent */
function agentCard(agent) {
  return h("div", { class: "card agent", data: { moment: agent.moment } }, agent.text);
}

/** An hourglass that no font lacks. */
export function glass() {
  return h(
    "svg:svg", { class: "glass", viewBox: "0 0 12 16", "aria-hidden": "true" },
    h("svg:path", { d: "M1 1h10M1 15h10M2 1c0 4 4 5 4 7s-4 3-4 7M10 1c0 4-4 5-4 7s4 3 4 7" }),
  );
}
