// @ts-check
// Builds elements. No text is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * An element with its attributes, listeners and children.
 *
 * @param {string} name a tag; `svg:` before it for a picture's
 * @param {Record<string, any>} [props] attributes; `class`, `on` (listeners by event), `data`, `vars`
 *   (custom properties of its style); null, undefined and false are left out, true is an empty attribute
 * @param {...(Child | Child[])} children
 * @returns {any}
 */
export function h(name, props = {}, ...children) {
  const element = name.startsWith("svg:")
    ? document.createElementNS(SVG, name.slice(4))
    : document.createElement(name);
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (key === "data") for (const [each, text] of Object.entries(value)) element.dataset[each] = String(text);
    else if (key === "vars") for (const [each, text] of Object.entries(value)) element.style.setProperty(`--${each}`, String(text));
    else if (key === "value" && "value" in element) /** @type {any} */ (element).value = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  fill(element, ...children);
  return element;
}

/**
 * Give an element other children.
 *
 * @param {Element} element
 * @param {...(Child | Child[])} children
 */
export function replace(element, ...children) {
  element.replaceChildren();
  fill(element, ...children);
}

/** @param {Element} element @param {...(Child | Child[])} children */
function fill(element, ...children) {
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** @param {string} id @returns {any} */
export const byId = (id) => document.getElementById(id);

/** Whether whoever reads wants things to stand still. */
export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

let toldLast = "";
/**
 * Tell it to whoever listens instead of looking.
 *
 * @param {string} text
 */
export function announce(text) {
  const region = byId("announcer");
  // the same words once more are news, too
  region.textContent = text === toldLast ? `${text}\u00a0` : text;
  toldLast = region.textContent;
}

/** @param {number} count @param {string} noun */
export const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

/** @param {string[]} words */
export function listed(words) {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`;
}
