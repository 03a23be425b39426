// The map of report and explorer: every image is a point, and similar images are close together.

import { button, dot, element, isDark, number, tint } from "./dom.js";
import { drawLabels, labelPlaces } from "./labels.js";
import { drawPoints, inside, pixel } from "./points.js";

const MARGIN = 28; // around the points, for the names of groups at the edge
const MOST_MOVING = 150_000; // points drawn while the map moves; all are drawn when it rests
const REST = 200; // milliseconds without motion, after which all points are drawn
const PALE = 100, PLAIN = 230; // of 255
const NO_GROUP = "#8c8780";
const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
// Kept while the page is open, so that the map looks as before when the user returns to it.
const view = { scale: 1, left: 0, top: 0 }; // magnification, and offset from the middle
const options = { color: "group", fade: true, names: true, lasso: false };

/**
 * A map with its controls and legend, drawn into `place`.
 *
 * `source` has these members:
 * - `columns()`: group, chance (in thousandths), x and y (in ten-thousandths), one number per image;
 * - `groups()`: number, name, size, colors and picture of every group;
 * - `sure(image)`: whether the image is never faded;
 * - `describe(image)`: the content of the hint;
 * - `open(image)`: what a click does;
 * - `wheel`: whether the wheel zooms without Ctrl;
 * - if images can be selected: `selected` (a Set), `toggle(image)`, `select(images)`, and `keys` (what further keys do).
 */
export class Plot {
  constructor(place, source) {
    this.source = source;
    this.active = -1;
    this.alone = null; // the only group that is shown, or null for all
    this.lasso = null;
    this.canvas = element("canvas", { id: "map-canvas", tabindex: "0", role: "application", "aria-label": this.help() });
    this.hint = element("div", { class: "hint", id: "map-hint", role: "status", hidden: true });
    this.legend = element("ul", { class: "legend", id: "map-legend", "aria-label": "Groups on the map" });
    place.replaceChildren(this.head(), element("div", { class: "plot" }, this.canvas, this.hint), this.legend,
      element("p", { class: "note" }, `Similar images are close together (t-SNE). Directions and large distances have no meaning. Drag to move, ${source.wheel ? "scroll or pinch" : "use + and −"} to zoom, click a name above to see only that group.`));
    this.context = this.canvas.getContext("2d");
    this.layer = document.createElement("canvas"); // the points alone
    this.points = this.layer.getContext("2d");
    this.listen();
    this.refresh();
    new ResizeObserver(() => this.resize()).observe(this.canvas);
  }

  help() {
    const select = this.source.selected ? " Space selects it, L turns the lasso on or off." : "";
    return `Map of ${number(this.source.columns().x.length)} images. Arrow keys move between images, Enter opens one.${select}`;
  }

  head() {
    const color = element("select", { id: "map-color", onchange: () => this.set({ color: color.value }) },
      element("option", { value: "group", selected: options.color === "group" }, "by group"), element("option", { value: "chance", selected: options.color === "chance" }, "by chance"));
    const check = (name, label) => {
      const box = element("input", { type: "checkbox", id: `map-${name}`, checked: options[name], onchange: () => this.set({ [name]: box.checked }) });
      return element("label", { class: "check" }, box, ` ${label}`);
    };
    this.scale = element("span", { class: "scale", id: "map-scale", hidden: options.color !== "chance" }, "0%", element("i", {}), "100%");
    this.lassoButton = this.source.selected && button("Lasso", () => this.set({ lasso: !options.lasso }), { id: "map-lasso", "aria-pressed": String(options.lasso), title: "Draw around images to select them. Key: L, or hold Shift" });
    this.fade = check("fade", "Fade doubtful images");
    return element("div", { class: "head" }, element("h2", { id: "map-title" }, "Map"), element("label", {}, "Color ", color), this.scale, this.fade, check("names", "Names"), this.lassoButton,
      element("span", { class: "zoom" }, button("−", () => this.zoom(1 / 1.5), { id: "map-out", "aria-label": "Zoom out" }), button("+", () => this.zoom(1.5), { id: "map-in", "aria-label": "Zoom in" })));
  }

  set(change) {
    Object.assign(options, change);
    this.scale.hidden = options.color !== "chance";
    this.fade.firstChild.disabled = options.color === "chance";
    this.lassoButton?.setAttribute("aria-pressed", String(options.lasso));
    this.canvas.classList.toggle("lasso", options.lasso);
    this.refresh();
  }

  /** Compute again what depends on edits and options, not on the view: colors, drawing order, places of labels. */
  refresh() {
    const { x, y, group, chance } = this.source.columns(), { selected, sure } = this.source, groups = this.source.groups();
    const dark = isDark() ? 1 : 0, byChance = options.color === "chance";
    const tints = new Map(groups.map((one) => [one.number, one.colors[dark]]));
    const pixels = [new Map(), new Map()]; // plain and pale, by group or chance
    const painted = (image, pale) => {
      const key = byChance ? chance[image] : group[image], known = pixels[pale];
      if (!known.has(key)) known.set(key, pixel(byChance ? trustColor(key) : tints.get(key) || NO_GROUP, pale ? PALE : PLAIN));
      return known.get(key);
    };
    const chosenPixel = pixel(dark ? "#ffffff" : "#1d1c1a", PLAIN), layer = new Uint8Array(x.length); // pale, plain, selected
    this.colors = new Uint32Array(x.length);
    for (let image = 0; image < x.length; image++) {
      const pale = (options.fade && !byChance && !sure(image)) || (this.alone !== null && group[image] !== this.alone);
      layer[image] = selected?.has(image) ? 2 : pale ? 0 : 1;
      this.colors[image] = layer[image] === 2 ? chosenPixel : painted(image, pale ? 1 : 0);
    }
    this.order = inLayers(layer);
    // Images are sorted by a hash of their contents, so every n-th one is a fair sample.
    const every = Math.ceil(x.length / MOST_MOVING);
    this.sample = every > 1 ? this.order.filter((image, place) => place % every === 0 || layer[image] === 2) : this.order;
    this.labels = labelPlaces(groups.filter((one) => this.alone === null || one.number === this.alone), group, x, y, () => this.redraw());
    this.drawLegend(groups);
    this.redrawPoints();
  }

  drawLegend(groups) {
    const shown = ({ number: group }) => this.alone === group;
    const choose = ({ number: group }) => { this.alone = this.alone === group ? null : group; this.refresh(); };
    const focused = this.legend.contains(document.activeElement) && document.activeElement.dataset.cluster;
    this.legend.replaceChildren(...groups.map((one) => element("li", {}, tint(
      button([dot(), one.name], () => choose(one), { "aria-pressed": String(shown(one)), data: { cluster: one.number } }), one))));
    if (focused) this.legend.querySelector(`[data-cluster="${focused}"]`)?.focus();
  }

  get radius() {
    const narrow = Math.min(1, Math.sqrt(this.width / 900)); // on a phone, points of full size would cover each other
    return Math.max(1.1, narrow * Math.min(4.5, 130 / Math.sqrt(this.colors.length))) * Math.min(2.5, Math.sqrt(view.scale));
  }
  toX(x) { return this.width / 2 + (x - this.middle[0] - view.left) * this.unit * view.scale; }
  toY(y) { return this.height / 2 + (y - this.middle[1] - view.top) * this.unit * view.scale; }

  /** Fit all points into the canvas: its middle, and pixels per unit at scale 1. */
  fit() {
    const { x, y } = this.source.columns();
    const [[left, right], [top, bottom]] = [extent(x), extent(y)];
    this.middle = [(left + right) / 2, (top + bottom) / 2];
    this.unit = Math.min((this.width - 2 * MARGIN) / Math.max(1, right - left), (this.height - 2 * MARGIN) / Math.max(1, bottom - top));
  }

  /** Where an image is on the canvas. */
  at(image) {
    const { x, y } = this.source.columns();
    return [this.toX(x[image]), this.toY(y[image])];
  }

  resize() {
    const box = this.canvas.getBoundingClientRect();
    this.ratio = window.devicePixelRatio || 1;
    [this.width, this.height] = [box.width, box.height];
    this.fit();
    this.layer.width = this.canvas.width = Math.round(this.width * this.ratio);
    this.layer.height = this.canvas.height = Math.round(this.height * this.ratio);
    this.redrawPoints();
  }

  redrawPoints() {
    this.stale = true;
    this.redraw();
  }

  /** Draw again what lies above the points: names, pictures, outlines. */
  redraw() {
    cancelAnimationFrame(this.planned);
    this.planned = requestAnimationFrame(() => this.draw());
  }

  draw() {
    const { context, layer, ratio } = this;
    if (!layer.width || !layer.height || !ratio) return;
    if (this.stale) this.drawPoints();
    this.stale = false;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, layer.width, layer.height);
    context.drawImage(layer, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (options.names) drawLabels(context, this.labels, (x) => this.toX(x), (y) => this.toY(y), this.width, this.height);
    if (this.active >= 0) this.outline(() => context.arc(...this.at(this.active), this.radius + 3, 0, 7));
    if (this.lasso) this.outline(() => this.lasso.forEach(([x, y], place) => (place ? context.lineTo(x, y) : context.moveTo(x, y))), true);
  }

  drawPoints() {
    const { x, y } = this.source.columns(), { layer, colors, ratio } = this;
    const scale = this.unit * view.scale * ratio, left = this.toX(0) * ratio, top = this.toY(0) * ratio;
    const order = this.moving && this.visible > MOST_MOVING ? this.sample : this.order;
    const shown = drawPoints(this.points, layer.width, layer.height, this.radius * ratio, order, { x, y, colors, left, top, scale });
    this.visible = (shown * this.order.length) / Math.max(1, order.length);
  }

  outline(path, closed = false) {
    const { context } = this;
    context.lineWidth = 2;
    context.strokeStyle = getComputedStyle(this.canvas).color;
    context.beginPath();
    path();
    if (closed) {
      context.closePath();
      context.fillStyle = "rgb(128 128 128 / 15%)";
      context.fill();
      context.setLineDash([5, 4]);
    }
    context.stroke();
    context.setLineDash([]);
  }

  reachable(image) { return this.alone === null || this.source.columns().group[image] === this.alone; }

  nearest(fromX, fromY, within, allowed = () => true) {
    const { x, y } = this.source.columns();
    const scale = this.unit * view.scale, left = this.toX(0) - fromX, top = this.toY(0) - fromY;
    let best = -1, least = within * within;
    for (let image = 0; image < x.length; image++) {
      const dx = left + x[image] * scale, dy = top + y[image] * scale, distance = dx * dx + dy * dy;
      if (distance < least && this.reachable(image) && allowed(dx, dy)) {
        best = image;
        least = distance;
      }
    }
    return best;
  }

  activate(image) {
    if (image === this.active) return;
    const { hint, width, height } = this;
    this.active = image;
    hint.hidden = image < 0;
    if (image >= 0) {
      hint.replaceChildren(...this.source.describe(image));
      const [x, y] = this.at(image);
      hint.style.left = `${Math.max(4, x + 16 + hint.offsetWidth > width ? x - 16 - hint.offsetWidth : x + 16)}px`;
      hint.style.top = `${Math.max(4, Math.min(y - 40, height - hint.offsetHeight - 4))}px`;
    }
    this.redraw();
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const scale = Math.max(1, Math.min(40, view.scale * factor));
    view.left += ((x - this.width / 2) / this.unit) * (1 / view.scale - 1 / scale);
    view.top += ((y - this.height / 2) / this.unit) * (1 / view.scale - 1 / scale);
    view.scale = scale;
    if (scale === 1) view.left = view.top = 0;
    this.move();
  }

  pan(dx, dy) {
    view.left -= dx / (this.unit * view.scale);
    view.top -= dy / (this.unit * view.scale);
    this.move();
  }

  /** Redraw in motion: if there are very many points, some of them now, and all of them when the map rests. */
  move() {
    this.moving = true;
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      this.moving = false;
      if (this.sample.length < this.order.length) this.redrawPoints();
    }, REST);
    this.redrawPoints();
  }

  listen() {
    const { canvas, source } = this, fingers = new Map();
    let moved = false;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse" || source.wheel) canvas.setPointerCapture(event.pointerId); // otherwise a finger scrolls the page
      fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
      moved = false;
      if (source.selected && (options.lasso || event.shiftKey) && fingers.size === 1) this.lasso = [[event.offsetX, event.offsetY]];
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = fingers.get(event.pointerId), here = [event.offsetX, event.offsetY];
      if (!before) return this.activate(this.nearest(...here, 14));
      const [dx, dy] = [here[0] - before[0], here[1] - before[1]];
      if (!moved && Math.abs(dx) + Math.abs(dy) < 4) return;
      moved = true;
      this.activate(-1);
      if (fingers.size === 2) this.pinch(fingers, event.pointerId, here);
      else if (this.lasso) this.lasso.push(here);
      else this.pan(dx, dy);
      fingers.set(event.pointerId, here);
      this.redraw();
    });
    const end = (event) => {
      fingers.delete(event.pointerId);
      if (this.lasso && this.lasso.length > 2) source.select(this.enclosed());
      this.lasso = null;
      this.redraw();
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("pointerleave", () => this.activate(-1));
    canvas.addEventListener("click", (event) => {
      const image = moved ? -1 : this.nearest(event.offsetX, event.offsetY, 18);
      if (image < 0) return;
      if (source.selected && (event.shiftKey || options.lasso)) return source.toggle(image);
      this.activate(image);
      source.open(image);
    });
    canvas.addEventListener("wheel", (event) => {
      if (!source.wheel && !event.ctrlKey) return; // the wheel alone scrolls the page
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 300), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  pinch(fingers, moving, here) {
    const other = [...fingers].find(([id]) => id !== moving)[1], before = fingers.get(moving);
    const distance = (from) => Math.hypot(from[0] - other[0], from[1] - other[1]);
    this.zoom(distance(here) / Math.max(1, distance(before)), (here[0] + other[0]) / 2, (here[1] + other[1]) / 2);
    this.pan((here[0] - before[0]) / 2, (here[1] - before[1]) / 2);
  }

  /** The images inside the lasso. */
  enclosed() {
    return [...this.order].filter((image) => this.reachable(image) && inside(this.lasso, ...this.at(image))).sort((a, b) => a - b);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { source, active } = this, selecting = Boolean(source.selected);
    const action = {
      "+": () => this.zoom(1.5), "=": () => this.zoom(1.5), "-": () => this.zoom(1 / 1.5), 0: () => this.zoom(1 / 100),
      Enter: () => active >= 0 && source.open(active), Escape: () => { this.activate(-1); source.keys?.Escape?.(); },
      ...(selecting && { l: () => this.set({ lasso: !options.lasso }), " ": () => active >= 0 && source.toggle(active) }),
    }[event.key] || source.keys?.[event.key];
    const to = DIRECTIONS[event.key];
    if (!action && !to) return;
    event.preventDefault(); // otherwise Enter would press the close button of the dialog that it opens
    if (action) return action();
    const [x, y] = active < 0 ? [this.width / 2, this.height / 2] : this.at(active);
    // Ahead means within 45 degrees of the arrow.
    const ahead = (dx, dy) => dx * to[0] + dy * to[1] > Math.abs(dx * to[1]) + Math.abs(dy * to[0]) && Math.abs(dx) + Math.abs(dy) > 0.01;
    const next = this.nearest(x, y, Infinity, active < 0 ? undefined : ahead);
    if (next >= 0) this.activate(next);
  }
}

/** Images by layer, the lowest first. */
function inLayers(layer) {
  const next = [0, 0, 0], order = new Int32Array(layer.length);
  for (const one of layer) for (let above = one + 1; above < 3; above++) next[above]++;
  for (let image = 0; image < layer.length; image++) order[next[layer[image]]++] = image;
  return order;
}

/** The smallest and the largest of many numbers from 0 to 10000. */
function extent(values) {
  let low = 10000, high = 0;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

// From orange through gray to blue, which differ with any color vision. page.css has the same colors for the scale.
function trustColor(thousandths) {
  const ends = [[214, 92, 20], [150, 145, 140], [40, 120, 215]], share = Math.round(thousandths / 50) / 20;
  const from = share < 0.5 ? 0 : 1, part = Math.min(1, share) * 2 - from;
  return `#${ends[from].map((value, channel) => Math.round(value + part * (ends[from + 1][channel] - value)).toString(16).padStart(2, "0")).join("")}`;
}
