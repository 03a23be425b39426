// A grid of any number of tiles. Only the tiles near the screen exist.

import { element } from "./dom.js";

const GAP = 10, CAPTION = 46, LEAST = 112;
const AHEAD = 1; // screens of tiles that exist above and below the visible ones
const TALLEST = 12_000_000; // pixels; browsers cut elements at 18 to 33 million, which a million images would exceed

export class Grid {
  /** `make(item, width)` creates the element of one item. */
  constructor(make, label) {
    this.make = make;
    this.items = [];
    this.cells = new Map(); // place -> element
    this.inner = element("div", { class: "grid-inner", role: "listbox", "aria-label": label, "aria-multiselectable": "true" });
    this.outer = element("div", { class: "grid" }, this.inner);
    this.outer.addEventListener("scroll", () => this.draw(), { passive: true });
    this.watch = new ResizeObserver(() => this.layout());
    this.watch.observe(this.outer);
  }

  show(items) {
    this.items = items;
    this.outer.scrollTop = 0;
    this.layout();
  }

  layout() {
    const width = this.inner.clientWidth;
    if (!width) return;
    this.columns = Math.max(3, Math.floor((width + GAP) / (LEAST + GAP)));
    this.tile = (width - GAP * (this.columns - 1)) / this.columns;
    this.line = this.tile + CAPTION;
    const height = Math.ceil(this.items.length / this.columns) * this.line, shown = Math.min(height, TALLEST), { clientHeight } = this.outer;
    this.inner.style.height = `${shown}px`;
    this.ratio = height > shown ? (height - clientHeight) / (shown - clientHeight) : 1; // pixels of the list per pixel of the scroll bar
    this.redraw();
  }

  /** Create all elements again. */
  redraw() {
    for (const cell of this.cells.values()) cell.remove();
    this.cells.clear();
    this.draw();
  }

  draw() {
    if (!this.line) return;
    const { scrollTop, clientHeight } = this.outer, top = scrollTop * this.ratio;
    const position = (place, cell) => {
      cell.style.transform = `translate(${(place % this.columns) * (this.tile + GAP)}px, ${Math.floor(place / this.columns) * this.line - top + scrollTop}px)`;
    };
    const from = Math.max(0, Math.floor((top - AHEAD * clientHeight) / this.line)) * this.columns;
    const to = Math.min(this.items.length, Math.ceil((top + (1 + AHEAD) * clientHeight) / this.line) * this.columns);
    for (const [place, cell] of this.cells) {
      if (place < from || place >= to) {
        cell.remove();
        this.cells.delete(place);
      } else if (this.ratio > 1) position(place, cell);
    }
    // Tiles in the middle of the screen are created last, since the pictures of the last tiles are fetched first.
    const distance = (place) => Math.abs(Math.floor(place / this.columns) * this.line - top - clientHeight / 2);
    const missing = [];
    for (let place = from; place < to; place++) if (!this.cells.has(place)) missing.push(place);
    missing.sort((a, b) => distance(b) - distance(a) || a - b);
    for (const place of missing) {
      const cell = this.make(this.items[place], this.tile);
      cell.dataset.place = place;
      cell.style.width = `${this.tile}px`;
      position(place, cell);
      this.cells.set(place, cell);
      this.inner.append(cell);
    }
  }

  /** Scroll an item into view and give it the focus. */
  focus(place) {
    const top = Math.floor(place / this.columns) * this.line, { clientHeight } = this.outer, at = this.outer.scrollTop * this.ratio;
    if (top < at) this.outer.scrollTop = Math.floor(top / this.ratio);
    if (top + this.line > at + clientHeight) this.outer.scrollTop = Math.ceil((top + this.line - clientHeight) / this.ratio);
    this.draw();
    this.cells.get(place)?.focus({ preventScroll: true });
  }

  end() {
    this.watch.disconnect();
  }
}
