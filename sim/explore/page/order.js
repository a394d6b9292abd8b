// @ts-check
// Orders, and what becomes of them when an entry is moved. Pure: nothing here knows the page.

/** @typedef {import("./wire.js").Item} Item */

/**
 * The order with an entry at another place. A session's own steps keep their sequence: whatever of the
 * session stands in the way is taken along, and stands directly beside the entry that was moved.
 *
 * @param {Item[]} order what is played
 * @param {number} from the entry that is moved
 * @param {number} gap where to: before the entry that now has this index; `order.length`: behind all
 * @param {(item: Item) => string} sessionOf the session of an entry; empty for one that is nobody's
 * @returns {{order: Item[], at: number, along: Item[]}} the new order, where the entry is now, and which
 *   others were taken along
 */
export function moved(order, from, gap, sessionOf) {
  if (gap === from || gap === from + 1) return { order, at: from, along: [] };
  const mine = sessionOf(order[from]);
  const [low, high] = gap < from ? [gap, from] : [from + 1, gap];
  const taken = [...order.keys()].filter((at) => at >= low && at < high && mine !== "" && sessionOf(order[at]) === mine);
  const group = gap < from ? [...taken, from] : [from, ...taken];
  const before = [...order.keys()].filter((at) => at < gap && !group.includes(at));
  const after = [...order.keys()].filter((at) => at >= gap && !group.includes(at));
  const places = [...before, ...group, ...after];
  return { order: places.map((at) => order[at]), at: places.indexOf(from), along: taken.map((at) => order[at]) };
}

/**
 * Where an entry goes that is moved past its neighbour. Its own session's steps move with it, and are none.
 *
 * @param {Item[]} order
 * @param {number} from
 * @param {-1 | 1} by
 * @param {(item: Item) => string} sessionOf
 * @returns {number | null} null: there is no neighbour
 */
export function gapBeside(order, from, by, sessionOf) {
  const mine = sessionOf(order[from]);
  let at = from + by;
  while (order[at] !== undefined && mine !== "" && sessionOf(order[at]) === mine) at += by;
  if (order[at] === undefined) return null;
  return by < 0 ? at : at + 1;
}
