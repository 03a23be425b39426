// The map: every image is a point, similar images are close together; names and pictures of groups; lasso.

import { button, byId, element, isDark, number, tint } from "./dom.js";
import { labelPlaces, drawLabels } from "./labels.js";
import { showPicture } from "./picture.js";
import { drawPoints, inside, pixel } from "./points.js";
import { groupOf, guessedName, nameOf, run } from "./run.js";
import { actions, clear, select, selected, toggle } from "./selection.js";
import { tile } from "./tiles.js";

const view = { scale: 1, left: 0, top: 0 }; // the visible part of the unit square
const options = { color: "group", fade: true, names: true, lasso: false };
let canvas = null, context, layer, points, hint;
let width = 0, height = 0, ratio = 1, active = -1, alone = null, planned = 0;
let order = new Int32Array(0), colors = [], labels = [], lasso = null;

const side = () => Math.min(width, height) - 32;
const toX = (x) => width / 2 + (x / 10000 - 0.5 - view.left) * side() * view.scale;
const toY = (y) => height / 2 + (y / 10000 - 0.5 - view.top) * side() * view.scale;
const radius = () => Math.max(1.1, Math.min(4.5, 90 / Math.sqrt(run.path.length))) * Math.min(2.5, Math.sqrt(view.scale));

export function show(place) {
  canvas = element("canvas", { id: "map-canvas", tabindex: "0", role: "application",
    "aria-label": `Map of ${number(run.path.length)} images. Arrow keys move between images, Enter opens one, Space selects it, L switches the lasso.` });
  hint = element("div", { class: "hint", role: "status", hidden: true });
  place.replaceChildren(head(), element("div", { class: "plot" }, canvas, hint), element("ul", { class: "legend", id: "map-legend", "aria-label": "Groups on the map" }),
    element("p", { class: "note" }, "Similar images are close together (t-SNE). Directions, and distances between far groups, have no meaning."));
  context = canvas.getContext("2d");
  layer = document.createElement("canvas");
  points = layer.getContext("2d");
  listen();
  prepare();
  new ResizeObserver(resize).observe(canvas);
}

export function leave() {
  canvas = null;
}

export function refresh() {
  if (canvas) prepare();
}

function head() {
  const color = element("select", { id: "map-color", onchange: () => { options.color = color.value; prepare(); } },
    element("option", { value: "group", selected: options.color === "group" }, "by group"), element("option", { value: "chance", selected: options.color === "chance" }, "by chance"));
  const fade = element("input", { type: "checkbox", id: "map-fade", checked: options.fade, onchange: () => { options.fade = fade.checked; prepare(); } });
  const names = element("input", { type: "checkbox", id: "map-names", checked: options.names, onchange: () => { options.names = names.checked; redraw(); } });
  const draw = button("Lasso", () => setLasso(!options.lasso), { id: "map-lasso", "aria-pressed": String(options.lasso), title: "Draw around images to select them. Key: L, or hold Shift" });
  return element("div", { class: "head" }, element("h2", {}, "Map"), element("label", {}, "Color ", color), element("label", { class: "check" }, fade, " Fade doubtful images"), element("label", { class: "check" }, names, " Names"),
    draw, element("span", { class: "zoom" }, button("−", () => zoom(1 / 1.5), { "aria-label": "Zoom out" }), button("+", () => zoom(1.5), { "aria-label": "Zoom in" })));
}

function setLasso(on) {
  options.lasso = on;
  byId("map-lasso").setAttribute("aria-pressed", String(on));
  canvas.classList.toggle("lasso", on);
}

/** Colors, the order of drawing and the places of labels: whatever changes with an edit and not with the view. */
function prepare() {
  const dark = isDark() ? 1 : 0, count = run.path.length;
  const byChance = options.color === "chance";
  const faint = (image) => (options.fade && !byChance && !run.reliable[image] && !run.person[image]) || (alone !== null && run.group[image] !== alone);
  const tints = new Map(run.info.groups.map((group) => [group.number, group.aside ? "#8c8780" : group.colors[dark]]));
  colors = new Uint32Array(count);
  const back = [], front = [], top = [];
  for (let image = 0; image < count; image++) {
    const color = byChance ? trustColor(run.chance[image] / 1000) : tints.get(run.group[image]) || "#8c8780";
    const pale = faint(image);
    colors[image] = pixel(color, pale ? 70 : 230);
    (selected.has(image) ? top : pale ? back : front).push(image);
  }
  for (const image of top) colors[image] = pixel(dark ? "#ffffff" : "#1d1c1a");
  order = Int32Array.from([...back, ...front, ...top]);
  labels = labelPlaces(alone, redraw);
  drawLegend();
  redraw();
}

// From orange through gray to blue: distinct with any color vision.
function trustColor(share) {
  const ends = [[214, 92, 20], [150, 145, 140], [40, 120, 215]];
  const from = share < 0.5 ? 0 : 1, part = Math.min(1, share) * 2 - from;
  return `#${ends[from].map((value, channel) => Math.round(value + part * (ends[from + 1][channel] - value)).toString(16).padStart(2, "0")).join("")}`;
}

function drawLegend() {
  byId("map-legend").replaceChildren(...run.info.groups.filter((group) => group.size && !group.aside).map((group) => element("li", {}, tint(
    button("", () => { alone = alone === group.number ? null : group.number; prepare(); }, { "aria-pressed": String(alone === group.number) }), group))));
  run.info.groups.filter((group) => group.size && !group.aside).forEach((group, place) =>
    byId("map-legend").children[place].firstChild.append(element("span", { class: "dot", "aria-hidden": "true" }), guessedName(group)));
}

function resize() {
  if (!canvas) return;
  const box = canvas.getBoundingClientRect();
  ratio = window.devicePixelRatio || 1;
  [width, height] = [box.width, box.height];
  layer.width = canvas.width = Math.round(width * ratio);
  layer.height = canvas.height = Math.round(height * ratio);
  redraw();
}

function redraw() {
  cancelAnimationFrame(planned);
  planned = requestAnimationFrame(draw);
}

function draw() {
  if (!canvas || !layer.width || !layer.height) return;
  const scale = (side() * view.scale * ratio) / 10000;
  const left = layer.width / 2 - (0.5 + view.left) * scale * 10000, top = layer.height / 2 - (0.5 + view.top) * scale * 10000;
  drawPoints(points, layer.width, layer.height, radius() * ratio, order, (image, at) => {
    at[0] = left + run.x[image] * scale;
    at[1] = top + run.y[image] * scale;
    return colors[image];
  });
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.drawImage(layer, 0, 0);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  if (options.names) drawLabels(context, labels, toX, toY, width, height);
  const ink = getComputedStyle(canvas).color;
  if (active >= 0) outline(ink, () => context.arc(toX(run.x[active]), toY(run.y[active]), radius() + 3, 0, 7));
  if (lasso) outline(ink, () => lasso.forEach(([x, y], place) => (place ? context.lineTo(x, y) : context.moveTo(x, y))), true);
}

function outline(color, path, closed = false) {
  context.lineWidth = 2;
  context.strokeStyle = color;
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

function nearest(x, y, within, allowed = () => true) {
  let best = -1, least = within * within;
  for (let image = 0; image < run.path.length; image++) {
    const dx = toX(run.x[image]) - x, dy = toY(run.y[image]) - y, distance = dx * dx + dy * dy;
    if (distance < least && (alone === null || run.group[image] === alone) && allowed(dx, dy)) {
      best = image;
      least = distance;
    }
  }
  return best;
}

function activate(image) {
  if (image === active) return;
  active = image;
  hint.hidden = image < 0;
  if (image >= 0) {
    hint.replaceChildren(tile(image, 128), element("strong", {}, run.path[image].split("/").at(-1)), element("div", {}, `${nameOf(groupOf(image))}, ${run.person[image] ? "placed by you" : `chance ${(run.chance[image] / 1000).toFixed(2)}`}`));
    const x = toX(run.x[image]), y = toY(run.y[image]);
    hint.style.left = `${Math.max(4, x + 16 + hint.offsetWidth > width ? x - 16 - hint.offsetWidth : x + 16)}px`;
    hint.style.top = `${Math.max(4, Math.min(y - 40, height - hint.offsetHeight - 4))}px`;
  }
  redraw();
}

function zoom(factor, x = width / 2, y = height / 2) {
  const scale = Math.max(1, Math.min(40, view.scale * factor));
  view.left += ((x - width / 2) / side()) * (1 / view.scale - 1 / scale);
  view.top += ((y - height / 2) / side()) * (1 / view.scale - 1 / scale);
  view.scale = scale;
  if (scale === 1) view.left = view.top = 0;
  redraw();
}

function pan(dx, dy) {
  view.left -= dx / (side() * view.scale);
  view.top -= dy / (side() * view.scale);
  redraw();
}

function listen() {
  const fingers = new Map();
  let moved = false;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
    moved = false;
    if ((options.lasso || event.shiftKey) && fingers.size === 1) lasso = [[event.offsetX, event.offsetY]];
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    const here = [event.offsetX, event.offsetY];
    if (!before) return activate(nearest(...here, 14));
    const [dx, dy] = [here[0] - before[0], here[1] - before[1]];
    if (!moved && Math.abs(dx) + Math.abs(dy) < 4) return;
    moved = true;
    activate(-1);
    if (fingers.size === 2) pinch(fingers, event.pointerId, here);
    else if (lasso) lasso.push(here);
    else pan(dx, dy);
    fingers.set(event.pointerId, here);
    redraw();
  });
  const end = (event) => {
    fingers.delete(event.pointerId);
    if (lasso && lasso.length > 2) take(event);
    lasso = null;
    redraw();
  };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  canvas.addEventListener("pointerleave", () => activate(-1));
  canvas.addEventListener("click", (event) => {
    if (moved) return;
    const image = nearest(event.offsetX, event.offsetY, 18);
    if (image < 0) return;
    if (event.shiftKey || options.lasso) toggle(image);
    else showPicture(image);
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 300), event.offsetX, event.offsetY);
  }, { passive: false });
  canvas.addEventListener("keydown", keys);
}

function pinch(fingers, moving, here) {
  const other = [...fingers].find(([id]) => id !== moving)[1], before = fingers.get(moving);
  const distance = (from) => Math.hypot(from[0] - other[0], from[1] - other[1]);
  zoom(distance(here) / Math.max(1, distance(before)), (here[0] + other[0]) / 2, (here[1] + other[1]) / 2);
  pan((here[0] - before[0]) / 2, (here[1] - before[1]) / 2);
}

function take() {
  const found = [];
  for (let image = 0; image < run.path.length; image++)
    if ((alone === null || run.group[image] === alone) && inside(lasso, toX(run.x[image]), toY(run.y[image]))) found.push(image);
  select(found);
}

const directions = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const does = {
    "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), 0: () => zoom(1 / 100), l: () => setLasso(!options.lasso),
    Escape: () => { activate(-1); clear(); }, Enter: () => active >= 0 && showPicture(active), " ": () => active >= 0 && toggle(active), ...actions,
  }[event.key];
  const to = directions[event.key];
  if (!does && !to) return;
  event.preventDefault();
  if (does) return does();
  const x = active < 0 ? width / 2 : toX(run.x[active]), y = active < 0 ? height / 2 : toY(run.y[active]);
  // Ahead means within 45 degrees of the arrow.
  const ahead = (dx, dy) => dx * to[0] + dy * to[1] > Math.abs(dx * to[1]) + Math.abs(dy * to[0]) && Math.abs(dx) + Math.abs(dy) > 0.01;
  const next = nearest(x, y, Infinity, active < 0 ? undefined : ahead);
  if (next >= 0) activate(next);
}

addEventListener("selection", refresh);
addEventListener("themechange", refresh);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
