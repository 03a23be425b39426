// Names and typical pictures of groups on the map: as many as fit without hiding each other; zooming in makes room.

import { isDark } from "./dom.js";
import { guessedName, run } from "./run.js";
import { picture } from "./tiles.js";

const CELLS = 24; // the map is divided into so many cells a side, to find where a group is densest
const pictures = new Map(); // by row

/** Where each group is, largest first; `ready` is called when a picture has arrived. */
export function labelPlaces(alone, ready) {
  const shown = run.info.groups.filter((group) => group.size && !group.aside && (alone === null || alone === group.number));
  const wanted = new Set(shown.map((group) => group.number));
  const cells = new Map();
  for (let image = 0; image < run.path.length; image++) {
    if (!wanted.has(run.group[image])) continue;
    const key = run.group[image] * CELLS * CELLS + cellOf(run.y[image]) * CELLS + cellOf(run.x[image]);
    const cell = cells.get(key) || [0, 0, 0];
    cell[0]++;
    cell[1] += run.x[image];
    cell[2] += run.y[image];
    cells.set(key, cell);
  }
  const densest = new Map();
  for (const [key, cell] of cells) {
    const group = Math.floor(key / (CELLS * CELLS));
    if (cell[0] > (densest.get(group)?.[0] ?? 0)) densest.set(group, cell);
  }
  return shown.sort((a, b) => b.size - a.size).map((group) => {
    const [count, x, y] = densest.get(group.number);
    return { group, x: x / count, y: y / count, picture: pictureOf(group.typical[0], ready), small: shown.length > 30 };
  });
}

const cellOf = (value) => Math.min(CELLS - 1, Math.floor((value / 10001) * CELLS));

function pictureOf(row, ready) {
  if (!pictures.has(row)) pictures.set(row, picture(row, 96, ready));
  return pictures.get(row);
}

export function drawLabels(context, labels, toX, toY, width, height) {
  const style = getComputedStyle(document.documentElement);
  const [panel, ink] = [style.getPropertyValue("--panel"), style.getPropertyValue("--ink")];
  const taken = [];
  const free = (box) => !taken.some((other) => box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom);
  context.font = "600 12px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "center";
  for (const label of labels) {
    let x = toX(label.x), y = toY(label.y);
    const side = label.small ? 32 : 44;
    if (x < -side || y < -side || x > width + side || y > height + side) continue;
    const name = shortened(guessedName(label.group)), wide = context.measureText(name).width + 14;
    // A group at the edge keeps its name on the map.
    x = Math.max(wide / 2 + 4, Math.min(width - wide / 2 - 4, x));
    y = Math.max(side / 2 + 4, Math.min(height - side / 2 - 24, y));
    const whole = box(x, y + 9, Math.max(side, wide), side + 20), alone = box(x, y, wide, 20);
    const color = label.group.colors[isDark() ? 1 : 0];
    if (label.picture.complete && label.picture.naturalWidth && free(whole)) {
      taken.push(whole);
      drawPicture(context, label.picture, x, y, side, color);
      drawName(context, name, x, y + side / 2 + 9, wide, color, panel, ink);
    } else if (free(alone)) {
      taken.push(alone);
      drawName(context, name, x, y, wide, color, panel, ink);
    }
  }
}

const box = (x, y, wide, high) => ({ left: x - wide / 2, right: x + wide / 2, top: y - high / 2, bottom: y + high / 2 });
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
