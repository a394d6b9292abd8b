// @ts-check
// What may stand at a place of a scenario file, after its JSON schema. Pure: text in, words out.

/**
 * @typedef {object} Place
 * @property {string[]} path keys from the top; `[]` for an entry of a list
 * @property {"key" | "value"} at
 * @property {string} word what has been written of it
 * @property {number} from where it begins, within its line
 * @property {string[]} beside keys that the mapping has already, as far as its line says
 *
 * @typedef {object} Word
 * @property {string} label
 * @property {string} detail
 * @property {boolean} key a mapping's key: a colon follows
 */

const KEY = /^(?:"([^"]*)"|'([^']*)'|([^\s#{}[\],:"'][^{}[\],:]*?))\s*:(?=\s|$)/;

/**
 * Where a cursor stands in a YAML text, as far as indentation and its own line tell.
 *
 * @param {string[]} lines
 * @param {number} line from 0
 * @param {number} column from 0
 * @returns {Place | null} null inside a comment or a quoted text
 */
export function placeAt(lines, line, column) {
  const before = lines[line].slice(0, column);
  const dashes = partsOf(before).filter((part) => part.key === null);
  const content = before.match(/^\s*(?:-\s+|-$)*/)?.[0].length ?? 0;
  const path = [...above(lines, line, dashes[0]?.column ?? content, dashes.length > 0), ...dashes.map(() => "[]")];
  const place = inLine(before, content, path);
  if (place?.at === "key" && place.path.length === path.length) place.beside.push(...besides(lines, line, content));
  return place;
}

/**
 * What gives a line its place: the dashes of list entries, and a key.
 *
 * @param {string} text
 * @returns {{column: number, key: string | null}[]}
 */
function partsOf(text) {
  const parts = [];
  let column = text.length - text.trimStart().length;
  while (/^-(\s|$)/.test(text.slice(column))) {
    parts.push({ column, key: null });
    column += text.slice(column).match(/^-\s*/)?.[0].length ?? 1;
  }
  const key = text.slice(column).match(KEY);
  if (key) parts.push({ column, key: name(key) });
  return parts;
}

/** @param {RegExpMatchArray} key */
const name = (key) => key[1] ?? key[2] ?? key[3];

/**
 * The keys and entries of earlier lines that something in this column belongs to.
 *
 * @param {string[]} lines @param {number} line @param {number} column @param {boolean} entry it is a dash
 */
function above(lines, line, column, entry) {
  /** @type {string[]} */
  const path = [];
  for (let at = line - 1; at >= 0; at -= 1) {
    if (lines[at].trimStart().startsWith("#")) continue;
    for (const part of partsOf(lines[at]).reverse()) {
      // a list may stand as far left as its own key
      if (part.column > column || (part.column === column && !(entry && part.key !== null))) continue;
      path.unshift(part.key ?? "[]");
      [column, entry] = [part.column, part.key === null];
    }
  }
  return path;
}

/** @param {string[]} lines @param {number} line @param {number} column the mapping's other keys */
function besides(lines, line, column) {
  const keys = [];
  for (const by of [-1, 1]) {
    for (let at = line + by; at >= 0 && at < lines.length; at += by) {
      const parts = partsOf(lines[at]);
      const part = parts.find((each) => each.column === column && each.key !== null);
      if (part && (by < 0 || parts.length === 1)) keys.push(String(part.key));
      if (parts.length && parts[0].column < column) break;
    }
  }
  return keys;
}

/**
 * Goes on from the beginning of the cursor's line: entries, keys, and what is in braces and brackets.
 *
 * @param {string} before @param {number} begin @param {string[]} path
 * @returns {Place | null}
 */
function inLine(before, begin, path) {
  let at = begin;
  const frames = [{ path: [...path], kind: "block", beside: /** @type {string[]} */ ([]), key: "" }];
  let from = at;
  while (at < before.length) {
    const frame = frames[frames.length - 1];
    const rest = before.slice(at);
    const key = frame.kind !== "list" && frame.key === "" ? rest.match(KEY) : null;
    if (key) {
      frame.key = name(key);
      frame.beside.push(frame.key);
      at += key[0].length;
    } else if (rest[0] === "#" && (at === 0 || before[at - 1] === " ")) return null;
    else if (rest[0] === '"' || rest[0] === "'") {
      const close = before.indexOf(rest[0], at + 1);
      if (close < 0) return null;
      at = close + 1;
      continue;
    } else if (rest[0] === "{" || rest[0] === "[") {
      const inner = frame.key ? [...frame.path, frame.key] : [...frame.path];
      frames.push({ path: rest[0] === "[" ? [...inner, "[]"] : inner, kind: rest[0] === "[" ? "list" : "map", beside: [], key: "" });
      at += 1;
    } else if ((rest[0] === "}" || rest[0] === "]") && frames.length > 1) {
      frames.pop();
      at += 1;
    } else if (rest[0] === "," && frame.kind !== "block") {
      frame.key = "";
      at += 1;
    } else {
      if (rest[0] !== " ") {
        at += 1;
        continue;
      }
      at += 1;
    }
    from = at;
  }
  const frame = frames[frames.length - 1];
  const word = before.slice(from).trimStart();
  const where = { word, from: before.length - word.length, beside: frame.beside };
  if (frame.kind === "list") return { ...where, path: frame.path, at: "value" };
  if (frame.key) return { ...where, path: [...frame.path, frame.key], at: "value" };
  return { ...where, path: frame.path, at: "key" };
}

/**
 * What the schema allows there.
 *
 * @param {any} schema
 * @param {Place} place
 * @param {(path: string[]) => string[]} [names] names of the file that may stand as a value there
 * @returns {Word[]}
 */
export function wordsFor(schema, place, names = () => []) {
  const nodes = place.path.reduce((found, key) => found.flatMap((node) => below(schema, node, key)), every(schema, schema));
  /** @type {Map<string, Word>} */
  const words = new Map();
  const put = (/** @type {string} */ label, /** @type {string} */ detail, /** @type {boolean} */ key) => {
    if (!words.has(label)) words.set(label, { label, detail, key });
  };
  // in a list or on an empty line either a value or a mapping may begin
  if (place.at === "key" || place.path[place.path.length - 1] === "[]") {
    for (const node of nodes) {
      for (const [key, each] of Object.entries(node.properties ?? {})) {
        if (!place.beside.includes(key)) put(key, described(schema, each), true);
      }
    }
  }
  if (place.at === "value") {
    for (const node of nodes) {
      for (const each of node.enum ?? []) put(String(each), "", false);
      if ([node.type].flat().includes("boolean")) ["true", "false"].forEach((each) => put(each, "", false));
    }
    for (const each of names(place.path)) put(each, "of this file", false);
  }
  return [...words.values()];
}

/** @param {any} schema @param {any} node @returns {string} */
const described = (schema, node) => node.description ?? (node.$ref ? described(schema, target(schema, node)) : "");

/** @param {any} schema @param {any} node */
const target = (schema, node) => schema.$defs[node.$ref.split("/").pop()];

/**
 * A node and everything that may stand for it.
 *
 * @param {any} schema @param {any} node @returns {any[]}
 */
function every(schema, node) {
  if (node === undefined || node === null || typeof node !== "object") return [];
  const others = [...(node.anyOf ?? []), ...(node.oneOf ?? []), ...(node.allOf ?? []), node.then, node.else];
  if (node.$ref) others.push(target(schema, node));
  return [node, ...others.flatMap((each) => every(schema, each))];
}

/** @param {any} schema @param {any} node @param {string} key */
function below(schema, node, key) {
  if (key === "[]") return every(schema, node.items);
  const own = node.properties?.[key];
  return every(schema, own ?? (typeof node.additionalProperties === "object" ? node.additionalProperties : undefined));
}
