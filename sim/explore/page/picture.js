// @ts-check
// The topology as a picture: nodes, what connects them, and messages on their way.

import { h, still } from "./dom.js";

const WIDTH = 400;
const NODE = { width: 88, height: 38 };
/** From one row of nodes to the next. */
const LEVEL = 96;
/** @type {Record<string, string>} */
export const ROLES = { publisher: "Publisher", republisher: "Republisher" };
const DISTRIBUTION = "distribution";
const COORDINATOR = "coordinator";

/**
 * @typedef {object} Scene
 * @property {import("./wire.js").WireNode[]} nodes
 * @property {{name: string, node: string}[]} sessions
 * @property {boolean} merging without a distribution database: sessions of the Merge Agent carry the changes
 *
 * @typedef {{x: number, y: number}} Place
 * @typedef {{svg: SVGSVGElement, places: Map<string, Place>}} Picture
 */

/**
 * Draw it, with a layer for messages.
 *
 * @param {Scene} scene
 * @returns {Picture}
 */
export function picture(scene) {
  const distributes = !scene.merging;
  /** @type {Map<string, Place>} */
  const places = new Map();
  const levels = levelsOf(scene.nodes);
  levels.forEach((level, row) => level.forEach((node, at) => {
    const [left, width] = row === 0 && distributes ? [80, WIDTH - 180] : [0, WIDTH];
    places.set(node.name, { x: left + (width / level.length) * (at + 0.5), y: 30 + row * LEVEL });
  }));
  const height = 52 + (levels.length - 1) * LEVEL;
  const lines = [];
  for (const node of scene.nodes) {
    const here = place(places, node.name);
    if (node.role === "publisher") continue;
    lines.push(line(place(places, node.publisher || scene.nodes[0].name), here, "link"));
    if (distributes) lines.push(line({ x: WIDTH - 52, y: 30 }, here, "way"));
  }
  if (distributes) {
    places.set(DISTRIBUTION, { x: WIDTH - 52, y: 30 });
    places.set(COORDINATOR, { x: 46, y: 30 });
    lines.push(line(place(places, scene.nodes[0].name), place(places, DISTRIBUTION), "way"));
  }
  const svg = h(
    "svg:svg", { viewBox: `0 0 ${WIDTH} ${height + 16}`, class: "picture", role: "img", "aria-label": described(scene) },
    h("svg:g", { class: "links" }, lines),
    h("svg:g", { class: "messages" }),
    ...scene.nodes.map((node) => box(node, place(places, node.name), scene.sessions.filter((each) => each.node === node.name))),
    distributes && [cylinder(place(places, DISTRIBUTION)), circle(place(places, COORDINATOR))],
  );
  for (const session of scene.sessions) places.set(session.name, place(places, session.node));
  return { svg, places };
}

/** Who subscribes at whom, from the Publisher down. @param {import("./wire.js").WireNode[]} nodes */
function levelsOf(nodes) {
  let level = nodes.filter((node) => node.role === "publisher");
  const levels = [];
  const seen = new Set();
  while (level.length) {
    levels.push(level);
    level.forEach((node) => seen.add(node.name));
    const names = level.map((node) => node.name);
    level = nodes.filter((node) => !seen.has(node.name) && names.includes(node.publisher));
  }
  const others = nodes.filter((node) => !seen.has(node.name));
  return others.length ? [...levels, others] : levels;
}

/** @param {Map<string, Place>} places @param {string} name */
const place = (places, name) => places.get(name) ?? { x: WIDTH / 2, y: 30 };

/** @param {Scene} scene */
function described(scene) {
  const words = scene.nodes.map((node) => `${node.name} (${node.role}${scene.sessions.filter((each) => each.node === node.name).map((each) => `, session ${each.name}`).join("")})`);
  return `Topology: ${words.join("; ")}`;
}

/** @param {{x: number, y: number}} from @param {{x: number, y: number}} to @param {string} kind */
const line = (from, to, kind) => h("svg:line", { x1: from.x, y1: from.y, x2: to.x, y2: to.y, class: kind });

/** @param {{name: string, role: string}} node @param {{x: number, y: number}} at @param {{name: string}[]} sessions */
function box(node, at, sessions) {
  const { width, height } = NODE;
  return h(
    "svg:g", { class: `box ${node.role}`, data: { node: node.name } },
    h("svg:rect", { x: at.x - width / 2, y: at.y - height / 2, width, height, rx: 5 }),
    h("svg:text", { x: at.x, y: at.y - 2, class: "name" }, node.name),
    h("svg:text", { x: at.x, y: at.y + 12, class: "role" }, ROLES[node.role] ?? "Subscriber"),
    sessions.length ? h("svg:text", { x: at.x, y: at.y + height / 2 + 14, class: "session" }, sessions.map((each) => each.name).join(", ")) : null,
  );
}

/** Of every session that has one. @param {Place} at */
function circle(at) {
  return h(
    "svg:g", { class: "box coordinator" },
    h("svg:rect", { x: at.x - 40, y: at.y - 14, width: 80, height: 28, rx: 14 }),
    h("svg:text", { x: at.x, y: at.y + 4, class: "role" }, "coordinator"),
  );
}

/** @param {Place} at */
function cylinder(at) {
  const [left, upper, lower] = [at.x - 42, at.y - 14, at.y + 14];
  return h(
    "svg:g", { class: "box distribution" },
    h("svg:path", { d: `M${left} ${upper}a42 6 0 0 1 84 0V${lower}a42 6 0 0 1 -84 0Z` }),
    h("svg:path", { d: `M${left} ${upper}a42 6 0 0 0 84 0`, class: "rim" }),
    h("svg:text", { x: at.x, y: at.y + 8, class: "role" }, "distribution"),
    h("svg:title", {}, "What the log reader has read, on its way to the Subscribers"),
  );
}

/**
 * Show what is on its way now, or arrives; without motion, an arrow in the middle of its way. A node where
 * something has changed is marked.
 *
 * @param {Picture} drawn
 * @param {import("./wire.js").Message[]} messages
 * @param {Map<string, any>} stand
 * @param {Set<string>} changed
 */
export function send({ svg, places }, messages, stand, changed) {
  const hot = new Set([...changed].filter((key) => !key.startsWith("session/")).map((key) => key.split("/")[1]));
  for (const box of svg.querySelectorAll("[data-node]")) {
    const { node = "" } = /** @type {SVGElement} */ (box).dataset;
    const state = stand.get(`node/${node}`);
    box.classList.toggle("hot", hot.has(node));
    box.classList.toggle("down", Boolean(state && (state.up === false || state.reached === false)));
  }
  const layer = /** @type {SVGGElement} */ (svg.querySelector(".messages"));
  layer.replaceChildren();
  messages.forEach((message, at) => {
    const [from, to] = [placeOf(places, message.sender), placeOf(places, message.receiver)];
    if (from && to && (from.x !== to.x || from.y !== to.y)) layer.append(...arrow(message, from, to, at));
  });
}

/** Of an agent that of its node; the coordinator of a transaction is at its session's. @param {Map<string, Place>} places @param {string} name */
function placeOf(places, name) {
  if (places.has(name)) return places.get(name);
  if (name === "log reader") return places.get(DISTRIBUTION);
  if (name.startsWith("agent of ")) return places.get(DISTRIBUTION);
  return undefined;
}

/** @param {import("./wire.js").Message} message @param {Place} from @param {Place} to @param {number} at */
function arrow(message, from, to, at) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy);
  const beside = 5 + (at % 3) * 5;
  const [x, y] = [(-dy / length) * beside, (dx / length) * beside];
  const middle = { x: (from.x + to.x) / 2 + x, y: (from.y + to.y) / 2 + y };
  const angle = (Math.atan2(dy, dx) * 180) / Math.PI;
  const flow = h("svg:line", { x1: from.x + x, y1: from.y + y, x2: to.x + x, y2: to.y + y, class: `flow ${message.kind}` });
  const head = h(
    "svg:g", { class: `message ${message.kind}`, transform: `translate(${middle.x} ${middle.y})` },
    h("svg:path", { d: "M-7 -4.5L5 0L-7 4.5Z", transform: `rotate(${angle})` }),
    h("svg:title", {}, `${message.sender} → ${message.receiver}: ${message.text}`),
  );
  if (!still()) {
    const at = (/** @type {number} */ px, /** @type {number} */ py) => `translate(${px}px, ${py}px)`;
    head.animate(
      [{ transform: at(from.x + x, from.y + y) }, { transform: at(to.x + x, to.y + y), offset: 0.85 }, { transform: at(middle.x, middle.y) }],
      { duration: 800, easing: "ease-in-out" },
    );
  }
  return [flow, head];
}
