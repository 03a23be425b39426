// Names and pictures of groups on the map: as many as fit without overlap. Zooming in makes room for more.

import { isDark } from "./dom.js";

const CELLS = 24; // the map has this many cells on each side; a label is at the densest cell of its group
// Offsets that a label may have from its group, in label widths and heights.
const NEAR = [[0, 0], [0, 0.5], [0, -0.5], [0.5, 0], [-0.5, 0], [0.5, 0.5], [-0.5, 0.5], [0.5, -0.5], [-0.5, -0.5], [0, -1], [0, 1], [1, 0], [-1, 0]];

/** The place of each group's label, the largest group first. `group`, `x` and `y` hold one number per image; `ready` is called when a picture has loaded. */
export function labelPlaces(groups, group, x, y, ready) {
  const wanted = new Set(groups.map((one) => one.number));
  const cells = new Map();
  for (let image = 0; image < group.length; image++) {
    if (!wanted.has(group[image])) continue;
    const key = group[image] * CELLS * CELLS + cellOf(y[image]) * CELLS + cellOf(x[image]);
    const cell = cells.get(key) || [0, 0, 0];
    cell[0]++;
    cell[1] += x[image];
    cell[2] += y[image];
    cells.set(key, cell);
  }
  const densest = new Map();
  for (const [key, cell] of cells) {
    const number = Math.floor(key / (CELLS * CELLS));
    if (cell[0] > (densest.get(number)?.[0] ?? 0)) densest.set(number, cell);
  }
  for (const { picture } of groups) if (picture && !picture.complete) picture.addEventListener("load", ready, { once: true });
  return [...groups].sort((a, b) => b.size - a.size).map((one) => {
    const [count, left, top] = densest.get(one.number);
    return { group: one, x: left / count, y: top / count, small: groups.length > 30 };
  });
}

const cellOf = (value) => Math.min(CELLS - 1, Math.floor((value / 10001) * CELLS));

export function drawLabels(context, labels, toX, toY, width, height) {
  const style = getComputedStyle(document.documentElement);
  const [panel, ink] = [style.getPropertyValue("--panel"), style.getPropertyValue("--ink")];
  const boxes = []; // of the labels drawn so far
  context.font = "600 12px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "center";
  for (const label of labels) {
    const { picture, name: whole, colors } = label.group, side = label.small ? 32 : 44;
    const at = [toX(label.x), toY(label.y)];
    if (at[0] < -side || at[1] < -side || at[0] > width + side || at[1] > height + side) continue;
    const name = shortened(whole), wide = context.measureText(name).width + 14, color = colors[isDark() ? 1 : 0];
    const pictured = picture?.complete && picture.naturalWidth && place(at, Math.max(side, wide), side + 20);
    const found = pictured || place(at, wide, 20);
    if (!found) continue;
    const [x, top, bottom] = found;
    if (pictured) drawPicture(context, picture, x, top + side / 2, side, color);
    drawName(context, name, x, bottom - 10, wide, color, panel, ink);
  }

  /** The nearest free place for a box, always inside the map: its middle, top and bottom. */
  function place([x, y], wide, high) {
    for (const [right, down] of NEAR) {
      const middle = Math.max(wide / 2 + 4, Math.min(width - wide / 2 - 4, x + right * wide));
      const top = Math.max(4, Math.min(height - high - 4, y - high / 2 + down * high));
      const box = { left: middle - wide / 2, right: middle + wide / 2, top, bottom: top + high };
      if (boxes.some((other) => box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom)) continue;
      boxes.push(box);
      return [middle, box.top, box.bottom];
    }
    return null;
  }
}

const shortened = (name) => (name.length > 22 ? `${name.slice(0, 21)}…` : name);

function drawPicture(context, picture, x, y, side, color) {
  context.save();
  context.beginPath();
  context.roundRect(x - side / 2, y - side / 2, side, side, 8);
  context.clip();
  context.drawImage(picture, x - side / 2, y - side / 2, side, side);
  context.restore();
  context.lineWidth = 2;
  context.strokeStyle = color;
  context.stroke();
}

function drawName(context, name, x, y, wide, color, panel, ink) {
  context.globalAlpha = 0.92;
  context.fillStyle = panel;
  context.beginPath();
  context.roundRect(x - wide / 2, y - 9, wide, 18, 9);
  context.fill();
  context.globalAlpha = 1;
  context.lineWidth = 1;
  context.strokeStyle = color;
  context.stroke();
  context.fillStyle = ink;
  context.fillText(name, x, y + 0.5);
}
