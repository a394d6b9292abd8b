// @ts-check
// How everything stands at one moment: the slider, the picture of the topology, and what each place holds.

import { counted, h, replace, still } from "./dom.js";
import { glass, ms } from "./lanes.js";
import { ROLES, picture, send } from "./picture.js";
import { standAt, under } from "./wire.js";

/** @typedef {Map<string, any>} Stand */

const PLAY_MS = 650;
/** Rows of a table that are shown although nothing has happened in them. */
const ROWS_MAX = 200;
const GUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export class Look {
  #timer = 0;
  /** @type {ReturnType<typeof picture> | null} */
  #picture = null;

  /** @param {import("./app.js").Explorer} explorer */
  constructor(explorer) {
    this.explorer = explorer;
    this.slider = h("input", {
      type: "range", min: 0, "aria-label": "Moment of the run",
      on: { input: () => { this.#pause(); explorer.at(Number(this.slider.value)); } },
    });
    this.back = h("button", { type: "button", "aria-label": "Moment before", on: { click: () => this.#go(-1) } }, "◀");
    this.next = h("button", { type: "button", "aria-label": "Next moment", on: { click: () => this.#go(1) } }, "▶");
    this.run = h("button", { type: "button", on: { click: () => (this.#timer ? this.#pause() : this.#start()) } }, "Play");
    this.count = h("span", { class: "when" });
    this.now = h("p", { class: "moment" });
    this.scene = h("figure", { class: "scene" });
    this.nodes = h("div", { class: "nodes" });
    this.place = h(
      "section", { class: "beside", "aria-label": "How everything stands" },
      h("div", { class: "player" }, this.back, this.slider, this.next, this.run), h("p", { class: "now-line" }, this.count), this.now, this.scene, this.nodes,
    );
  }

  /** For another run. */
  draw() {
    const { run, scenario } = this.explorer;
    if (run === null || scenario === null) return;
    this.#pause();
    this.slider.max = run.moments.length - 1;
    this.#picture = picture({
      nodes: scenario.nodes, sessions: scenario.sessions, merging: scenario.replication === "merge",
    });
    replace(this.scene, this.#picture.svg);
  }

  /** For the moment that is chosen. */
  moment() {
    const { run, moment, scenario } = this.explorer;
    if (run === null || scenario === null) return;
    const at = run.moments[moment];
    this.slider.value = String(moment);
    this.slider.setAttribute("aria-valuetext", `${moment + 1} of ${run.moments.length}: ${at.text}`);
    this.back.disabled = moment === 0;
    this.next.disabled = moment === run.moments.length - 1;
    replace(this.count, `${moment + 1} of ${run.moments.length} · ${ms(at.at_ms)} ms`);
    replace(this.now, run.possible !== true && at.event === "end" ? "the order has stopped, and what was open is rolled back" : at.text);
    const stand = standAt(run, moment);
    const before = moment > 0 ? standAt(run, moment - 1) : new Map();
    const changed = new Set(moment > 0 ? at.changed : []);
    if (this.#picture) send(this.#picture, messagesOf(run, moment, stand), stand, changed);
    replace(this.nodes, ...scenario.nodes.map((node) => nodeCard(node, stand, before, changed)), ...between(stand, changed));
  }

  /** @param {-1 | 1} by */
  #go(by) {
    this.#pause();
    this.explorer.at(this.explorer.moment + by);
  }

  #start() {
    const { explorer } = this;
    if (explorer.moment === (explorer.run?.moments.length ?? 1) - 1) explorer.at(0);
    replace(this.run, "Pause");
    this.#timer = setInterval(() => {
      const last = (explorer.run?.moments.length ?? 1) - 1;
      explorer.at(explorer.moment + 1);
      if (explorer.moment >= last) this.#pause();
    }, still() ? 2 * PLAY_MS : PLAY_MS);
  }

  #pause() {
    clearInterval(this.#timer);
    this.#timer = 0;
    replace(this.run, "Play");
  }
}

/** What is on its way, or arrived just now. @param {import("./wire.js").Run} run @param {number} moment @param {Stand} stand */
function messagesOf(run, moment, stand) {
  const coming = under(stand, "message/").map(([, message]) => message);
  const before = run.moments[moment - 1]?.at_ms ?? -Infinity;
  const { at_ms, event } = run.moments[moment];
  const arrived = run.messages.filter((each) => each.arrives_ms <= at_ms && each.arrives_ms > before && event !== "initial");
  return [...coming, ...arrived.filter((each) => !coming.some((one) => JSON.stringify(one) === JSON.stringify(each)))];
}

/** @param {import("./wire.js").WireNode} node @param {Stand} stand @param {Stand} before @param {Set<string>} changed */
function nodeCard(node, stand, before, changed) {
  const state = stand.get(`node/${node.name}`);
  const role = ROLES[node.role] ?? "Subscriber";
  const sessions = under(stand, "session/").filter(([, session]) => session.node === node.name);
  const tables = tablesOf(node.name, stand, before);
  return h(
    "section", { class: "node", "aria-label": `${node.name}, ${role}` },
    h("h3", {}, node.name, h("span", { class: "role" }, ` ${role}`)),
    state && state.up === false ? h("p", { class: "bad" }, "✗ is down") : null,
    state && state.up !== false && state.reached === false ? h("p", { class: "bad" }, "✗ nobody reaches it") : null,
    sessions.length ? h("ul", { class: "facts" }, sessions.map(([name, session]) => h(
      "li", { class: hot(changed, `session/${name}`) }, h("b", {}, name), " ", h("span", { class: session.style || null }, session.text),
    ))) : null,
    ...locks(node.name, stand, changed),
    ...branches(node.name, stand, changed),
    ...[...tables].map(([table, rows]) => tableOf(node.name, table, rows, changed)),
    ...merging(node.name, stand, changed),
  );
}

/** @param {Set<string>} changed @param {string} key */
const hot = (changed, key) => (changed.has(key) ? "hot" : null);

/**
 * The rows of a node by table: those that are there, and those that have just gone.
 *
 * @param {string} node @param {Stand} stand @param {Stand} before
 * @returns {Map<string, [string, any, any][]>} key of the row, how it is, how it was
 */
function tablesOf(node, stand, before) {
  /** @type {Map<string, [string, any, any][]>} */
  const tables = new Map();
  const keys = new Set([...under(stand, `row/${node}/`), ...under(before, `row/${node}/`)].map(([key]) => key));
  for (const key of keys) {
    const at = key.indexOf("/");
    const [table, row] = [key.slice(0, at), key.slice(at + 1)];
    const whole = `row/${node}/${key}`;
    tables.set(table, [...(tables.get(table) ?? []), [row, stand.get(whole), before.get(whole)]]);
  }
  for (const rows of tables.values()) rows.sort(([one], [other]) => one.localeCompare(other, "en", { numeric: true }));
  return tables;
}

/** Of a long table: the first rows, and those with which something happens or has happened. @param {any} row */
const isTouched = (row) => Boolean(row?.stale || row?.uncommitted.length || row?.locked_by.length || row?.waiting.length || (row?.label && row.label !== "v1"));

/** @param {string} node @param {string} table @param {[string, any, any][]} rows @param {Set<string>} changed */
function tableOf(node, table, rows, changed) {
  const shown = rows.filter(([key, now], place) => place < ROWS_MAX || isTouched(now) || changed.has(`row/${node}/${table}/${key}`));
  const columns = [...new Set(rows.flatMap(([, now, was]) => Object.keys((now ?? was)?.values ?? {})))];
  const stale = rows.some(([, now]) => now?.stale);
  const versions = rows.some(([, now, was]) => (now ?? was)?.label || now?.uncommitted?.length);
  return h(
    "table", {},
    h("caption", {}, h("b", {}, table), stale ? h("span", { class: "wait" }, " ≠ not as at the Publisher") : null),
    h("thead", {}, h("tr", {}, columns.map((column) => h("th", { scope: "col" }, column)), versions && h("th", { scope: "col" }, "version"))),
    h("tbody", {}, shown.flatMap(([key, now, was]) => rowLines(now, was, columns, versions, changed.has(`row/${node}/${table}/${key}`)))),
    shown.length < rows.length && h("tfoot", {}, h("tr", {}, h("td", { class: "faint", colspan: columns.length + 1 }, `and ${counted(rows.length - shown.length, "more row")}, in which nothing has happened`))),
  );
}

/** @param {any} now @param {any} was @param {string[]} columns @param {boolean} versions @param {boolean} changed */
function rowLines(now, was, columns, versions, changed) {
  const held = now ?? was;
  const gone = now === undefined;
  const cells = columns.map((column) => {
    const [value, old] = [held.values?.[column], was?.values?.[column]];
    const other = changed && !gone && was !== undefined && old !== value;
    return h("td", {}, gone ? h("del", {}, shown(value)) : other ? h("b", {}, shown(value)) : shown(value), other ? h("span", { class: "was" }, ` was ${old}`) : null);
  });
  const lines = [h("tr", { class: `${changed ? "hot" : ""} ${held.stale ? "stale" : ""}` }, cells, versions && h("td", { class: "version", title: held.version }, held.label))];
  for (const each of now?.uncommitted ?? []) {
    lines.push(h(
      "tr", { class: `uncommitted ${changed ? "hot" : ""}` },
      columns.map((column) => h("td", {}, each.gone ? h("del", {}, shown(each.values?.[column])) : shown(each.values?.[column]))),
      h("td", { class: "version", title: each.version }, `${each.label ?? ""} ${each.by}'s`, each.state ? h("span", { class: "was" }, ` ${each.state}`) : null),
    ));
  }
  const holders = (now?.locked_by ?? []).map((/** @type {any} */ lock) => `${lock.by} (${lock.mode})`);
  if (holders.length || now?.waiting?.length) {
    lines.push(h("tr", { class: "lock" }, h(
      "td", { colspan: columns.length + 1 },
      holders.length ? `locked by ${holders.join(", ")}` : null,
      now.waiting?.length ? h("span", { class: "wait" }, holders.length ? "; " : "", glass(), ` ${now.waiting.join(", ")}`) : null,
    )));
  }
  return lines;
}

/** @param {any} value */
function shown(value) {
  if (value === null || value === undefined) return h("i", {}, "null");
  const text = String(value);
  return GUID.test(text) ? h("code", { title: text }, `${text.slice(0, 8)}…`) : text;
}

/** @param {string} node @param {Stand} stand @param {Set<string>} changed */
function locks(node, stand, changed) {
  const waits = under(stand, `lock/${node}/`).filter(([, lock]) => lock.waits_for?.length || !lock.granted);
  const held = under(stand, `lock/${node}/`).filter(([, lock]) => lock.granted && !lock.waits_for?.length);
  return [
    waits.length ? h("ul", { class: "waits-list" }, waits.map(([key, lock]) => h(
      "li", { class: hot(changed, `lock/${node}/${key}`) }, glass(), ` ${lock.session} waits for ${(lock.waits_for ?? []).join(", ") || "a lock"}: ${lock.what}`,
    ))) : null,
    held.length ? h("details", { class: "locks" }, h("summary", {}, counted(held.length, "lock")), h("ul", { class: "facts" }, held.map(([key, lock]) => h(
      "li", { class: hot(changed, `lock/${node}/${key}`) }, `${lock.session}: ${lock.what}, ${lock.mode}`,
    )))) : null,
  ];
}

/** @param {string} node @param {Stand} stand @param {Set<string>} changed */
function branches(node, stand, changed) {
  const prepared = under(stand, `prepared/${node}/`);
  const markers = under(stand, `marker/${node}/`);
  return [
    prepared.length ? h("ul", { class: "facts" }, prepared.map(([gid, branch]) => h(
      "li", { class: hot(changed, `prepared/${node}/${gid}`) }, h("span", { class: "tag wait" }, "prepared"), ` ${branch.by || ""} `, h("code", {}, gid),
    ))) : null,
    markers.length ? h("ul", { class: "facts" }, markers.map(([gid, marker]) => h(
      "li", { class: hot(changed, `marker/${node}/${gid}`) }, h("span", { class: "tag" }, marker.fence ? "fence" : "marker"), ` ${marker.by || ""} `, h("code", {}, gid),
    ))) : null,
  ];
}

/** Where changes are merged: what a node notes. @param {string} node @param {Stand} stand @param {Set<string>} changed */
function merging(node, stand, changed) {
  const generations = under(stand, `generation/${node}/`);
  const metadata = under(stand, `metadata/${node}/`);
  const neighbours = under(stand, `neighbour/${node}/`);
  const lineage = (/** @type {any} */ of) => Object.entries(of ?? {}).map(([replica, version]) => `${replica} ${version}`).join(", ");
  const parts = [
    ...neighbours.map(([name, each]) => h("li", { class: hot(changed, `neighbour/${node}/${name}`) }, `with ${name}: sent ${each.sent}, received ${each.received}${each.coming ? `, coming ${each.coming}` : ""}`)),
    ...generations.map(([number, each]) => h("li", { class: hot(changed, `generation/${node}/${number}`) }, `generation ${each.number}: ${typeof each.rows === "number" ? counted(each.rows, "row") : [each.rows].flat().join(", ")}`)),
    ...metadata.map(([row, each]) => h("li", { class: hot(changed, `metadata/${node}/${row}`) }, `${row}: ${lineage(each.lineage)}${each.gone ? ", deleted" : ""}`)),
  ];
  if (parts.length === 0) return [];
  const open = [...changed].some((key) => /^(generation|metadata|neighbour)\//.test(key) && key.split("/")[1] === node);
  return [h("details", { class: "locks", open }, h("summary", {}, "merge metadata"), h("ul", { class: "facts" }, parts))];
}

/** What is at no node: decisions, and what is on its way to Subscribers. @param {Stand} stand @param {Set<string>} changed */
function between(stand, changed) {
  const decisions = under(stand, "decision/");
  const agents = under(stand, "agent/");
  const stored = under(stand, "stored/");
  const reader = stand.get("reader");
  return [
    decisions.length ? h("section", { class: "node", "aria-label": "Decision log" }, h("h3", {}, "Decision log"), h("ul", { class: "facts" }, decisions.map(([gid, each]) => h(
      "li", { class: hot(changed, `decision/${gid}`) }, h("span", { class: `tag ${each.decision === "commit" ? "good" : ""}` }, each.decision), ` ${each.by || ""} `, h("code", {}, gid),
    )))) : null,
    reader || agents.length || stored.length ? h(
      "section", { class: "node", "aria-label": "Distribution" }, h("h3", {}, "Distribution"),
      h(
        "ul", { class: "facts" },
        reader && h("li", { class: hot(changed, "reader") }, h("b", {}, "log reader"), ` has read ${counted(reader.read, "transaction")}`, behind(reader.behind)),
        stored.map(([number, each]) => h("li", { class: hot(changed, `stored/${number}`) }, h("b", {}, `#${each.number}`), `${each.by ? ` ${each.by}` : ""}${each.origin ? ` from ${each.origin}` : ""}: `, commandsOf(each.commands))),
        agents.map(([node, each]) => h("li", { class: hot(changed, `agent/${node}`) }, h("b", {}, `agent of ${node}`), ` has delivered ${each.delivered}`, behind(each.behind), each.state && each.state !== "running" ? `, ${each.state}` : "")),
      ),
    ) : null,
  ];
}

/** @param {any} commands their texts, or how many there are */
const commandsOf = (commands) => (Array.isArray(commands) ? h("code", {}, commands.join("; ")) : counted(Number(commands), "command"));

/** @param {any} behind */
const behind = (behind) => (behind ? h("span", { class: "wait" }, `, ${behind} behind`) : null);
