// @ts-check
// What the server says, as far as the page reads it (twopc.sim.explore.wire says it all), and how it is folded. Pure.

/**
 * @typedef {string | Record<string, any>} Item an entry of an order: a step, or `{sync: [...]}` and the like
 *
 * @typedef {{line: number, column: number, length: number, message: string, remedy: string, severity: string, path: string}} Problem
 * @typedef {{path: string, name: string, about: string, steps: number, orders: string[], error: Problem | null, why_not: string}} FileEntry
 * @typedef {{root: string, files: FileEntry[], present: boolean, read_only: boolean}} FileListing
 * @typedef {{name: string, role: string, publisher: string}} WireNode
 * @typedef {{name: string, node: string, also: string[], way: string}} Session
 * @typedef {{name: string, session: string, action: string, text: string}} Step
 * @typedef {{name: string, about: string, steps: Item[], generated: boolean, faults: string[],
 *   switches: Record<string, string>}} Order
 * @typedef {{name: string, label: string, kind: "choice" | "on_off", values: string[], value: string, about: string, of_twin: boolean}} Switch
 * @typedef {{point: string, about: string, deeds: string[]}} Point
 * @typedef {{name: string, about: string, replication: string, nodes: WireNode[], sessions: Session[], steps: Step[],
 *   orders: Order[], switches: Switch[], fault_points: Point[], faults: Record<string, string>}} Scenario
 * @typedef {{path: string, text: string, version: string, errors: Problem[], scenario: Scenario | null, why_not: string}} FileContent
 * @typedef {{at: string, do: string, nth?: number, session?: string}} Fault
 * @typedef {{order: Item[], listed: string, switches: Record<string, string>, faults: Fault[]}} Variant
 *
 * @typedef {{step: string, session: string, item: number, state: string, text: string, began_ms: number,
 *   ended_ms: number | null, moment: number, end_moment: number, waits_for: string, result: string, because: string,
 *   however: string}} Card
 * @typedef {{at_ms: number, moment: number, node: string, kind: string, text: string}} Agent
 * @typedef {{sender: string, receiver: string, kind: string, text: string, sent_ms: number, arrives_ms: number}} Message
 * @typedef {{at_ms: number, event: string, text: string, step: string, changed: string[]}} Moment
 * @typedef {{name: string, holds: boolean, means: string, text: string, because: string, however: string}} Invariant
 * @typedef {{point: string, nth: number, at_ms: number, moment: number, session: string}} Arrival
 * @typedef {{on: string, order: Item[], possible: true | {at: number, reason: string}, cards: Card[], agents: Agent[],
 *   moments: Moment[], states: Record<string, any>[], messages: Message[], arrivals: Arrival[], invariants: Invariant[],
 *   failures: {check: string, message: string, because: string, however: string}[], story: string[],
 *   outcomes: Record<string, string>, outcome: string, behaviour: string, elapsed_ms: number}} Run
 */

/**
 * How everything stood at a moment.
 *
 * @param {Run} run
 * @param {number} at index of the moment
 * @returns {Map<string, any>}
 */
export function standAt(run, at) {
  const stand = new Map();
  for (const delta of run.states.slice(0, at + 1)) {
    for (const [key, value] of Object.entries(delta)) {
      if (value === null) stand.delete(key);
      else stand.set(key, value);
    }
  }
  return stand;
}

/**
 * What of a state has a key that begins so, by the rest of the key.
 *
 * @param {Map<string, any>} stand
 * @param {string} begin
 * @returns {[string, any][]}
 */
export function under(stand, begin) {
  return [...stand].filter(([key]) => key.startsWith(begin)).map(([key, value]) => [key.slice(begin.length), value]);
}

/**
 * How an entry of an order is called.
 *
 * @param {Item} item
 * @returns {string}
 */
export function itemName(item) {
  if (typeof item === "string") return item;
  return Object.entries(item).map(([key, value]) => `${key} ${Array.isArray(value) ? value.join(", ") : textOf(value)}`).join(", ");
}

/** @param {any} value */
const textOf = (value) => (value !== null && typeof value === "object" ? Object.values(value).join(" ") : String(value));

/** @param {Item[]} one @param {Item[]} other */
export const sameOrder = (one, other) => JSON.stringify(one) === JSON.stringify(other);
