// @ts-check
// Moves cards: dragged with a pointer, or by keyboard. What comes of it is decided elsewhere.

/** So many pixels make a drag of a click. */
const SLOP_PX = 5;
/** So near to the window's edge the page scrolls. */
const EDGE_PX = 48;

/**
 * @typedef {object} Moves
 * @property {(from: number, gap: number) => void} move put an entry before the one of this index
 * @property {(from: number, by: -1 | 1) => void} nudge past its neighbour
 * @property {(from: number) => void} choose it was clicked, or Enter was pressed
 */

/**
 * @param {HTMLElement} lanes holds elements with `data-item`, the entries of the order
 * @param {Moves} moves
 */
export function movable(lanes, moves) {
  lanes.addEventListener("pointerdown", (event) => {
    const card = cardOf(event.target);
    if (card === null || event.button !== 0 || !event.isPrimary) return;
    // a finger scrolls the page, unless it is on the grip
    const grip = event.target instanceof Element && event.target.closest(".grip") !== null;
    if (event.pointerType !== "mouse" && !grip) return;
    new Drag(lanes, card, event, moves);
  });
  lanes.addEventListener("click", (event) => {
    const card = cardOf(event.target);
    if (card === null || !getSelection()?.isCollapsed) return;
    select(lanes, card, false);
    moves.choose(Number(card.dataset.item));
  });
  lanes.addEventListener("keydown", (event) => {
    const card = cardOf(event.target);
    if (card === null || event.target !== card || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const by = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 }[event.key];
    const cards = all(lanes);
    const at = cards.indexOf(card);
    if (by !== undefined && event.altKey) moves.nudge(Number(card.dataset.item), by < 0 ? -1 : 1);
    else if (event.altKey) return;
    else if (by !== undefined) select(lanes, cards[at + by]);
    else if (event.key === "Home") select(lanes, cards[0]);
    else if (event.key === "End") select(lanes, cards[cards.length - 1]);
    else if (event.key === "Enter" || event.key === " ") moves.choose(Number(card.dataset.item));
    else return;
    event.preventDefault();
  });
}

/**
 * One card can be reached by Tab; arrows go on from there.
 *
 * @param {HTMLElement} lanes
 * @param {HTMLElement | undefined} card
 * @param {boolean} [focus]
 */
export function select(lanes, card, focus = true) {
  if (card === undefined) return;
  for (const each of all(lanes)) each.tabIndex = each === card ? 0 : -1;
  if (focus) card.focus();
}

/** @param {HTMLElement} lanes @returns {HTMLElement[]} */
const all = (lanes) => [...lanes.querySelectorAll("[data-item]")].map((each) => /** @type {HTMLElement} */ (each));

/** @param {EventTarget | null} target @returns {HTMLElement | null} */
const cardOf = (target) => (target instanceof Element ? target.closest("[data-item]") : null);

/** One card on its way. */
class Drag {
  #stop = new AbortController();
  #moving = false;
  #gap = -1;
  #line = document.createElement("div");
  #scroll = 0;

  /** @param {HTMLElement} lanes @param {HTMLElement} card @param {PointerEvent} begun @param {Moves} moves */
  constructor(lanes, card, begun, moves) {
    this.lanes = lanes;
    this.card = card;
    this.begun = begun;
    this.last = begun;
    this.top = lanes.getBoundingClientRect().top;
    this.moves = moves;
    this.#line.className = "drop";
    this.#line.setAttribute("aria-hidden", "true");
    const options = { signal: this.#stop.signal };
    card.setPointerCapture(begun.pointerId);
    card.addEventListener("pointermove", (event) => this.#move(event), options);
    card.addEventListener("pointerup", () => this.#end(true), options);
    card.addEventListener("pointercancel", () => this.#end(false), options);
    card.addEventListener("lostpointercapture", () => this.#end(false), options);
    addEventListener("keydown", (event) => event.key === "Escape" && this.#end(false), options);
    addEventListener("scroll", () => this.#follow(), { ...options, capture: true });
  }

  /** @param {PointerEvent} event */
  #move(event) {
    this.last = event;
    const far = Math.hypot(event.clientX - this.begun.clientX, event.clientY - this.begun.clientY);
    if (!this.#moving && far < SLOP_PX) return;
    if (!this.#moving) {
      this.#moving = true;
      this.card.classList.add("dragged");
      this.lanes.classList.add("dragging");
      this.lanes.append(this.#line);
      getSelection()?.removeAllRanges();
    }
    this.#follow();
    this.#edge();
  }

  #follow() {
    if (!this.#moving) return;
    const box = this.lanes.getBoundingClientRect();
    const y = this.last.clientY - this.begun.clientY - (box.top - this.top);
    this.card.style.transform = `translateY(${y}px)`;
    const cards = all(this.lanes);
    const tops = cards.map((each) => (each === this.card ? this.#home() : each.getBoundingClientRect()).top);
    const heights = cards.map((each) => Math.min(each.getBoundingClientRect().height, 48));
    let gap = tops.findIndex((top, at) => this.last.clientY < top + heights[at] / 2);
    if (gap < 0) gap = cards.length;
    if (gap === this.#gap) return;
    this.#gap = gap;
    const edge = gap < cards.length ? tops[gap] : Math.max(...cards.map((each) => each.getBoundingClientRect().bottom));
    this.#line.style.top = `${edge - box.top - 2}px`;
  }

  /** Where the card was before it was moved. */
  #home() {
    return /** @type {Element} */ (this.card.parentElement).getBoundingClientRect();
  }

  /** Near the window's edge the page scrolls, for as long as the pointer is there. */
  #edge() {
    cancelAnimationFrame(this.#scroll);
    const y = this.last.clientY;
    const by = y < EDGE_PX ? y - EDGE_PX : y > innerHeight - EDGE_PX ? y - innerHeight + EDGE_PX : 0;
    if (by === 0 || !this.#moving) return;
    this.#scroll = requestAnimationFrame(() => {
      scrollBy({ top: by / 3, behavior: "instant" });
      this.#edge();
    });
  }

  /** @param {boolean} dropped */
  #end(dropped) {
    this.#stop.abort();
    cancelAnimationFrame(this.#scroll);
    this.#line.remove();
    this.lanes.classList.remove("dragging");
    this.card.classList.remove("dragged");
    this.card.style.transform = "";
    if (!this.#moving) return;
    // the click that ends a drag is none
    const swallow = (/** @type {Event} */ event) => event.stopPropagation();
    addEventListener("click", swallow, { capture: true });
    setTimeout(() => removeEventListener("click", swallow, { capture: true }));
    if (dropped && this.#gap >= 0) this.moves.move(Number(this.card.dataset.item), this.#gap);
  }
}
