// How images would move between groups, shown before anything changes.

import { counted, dot, element, number, tint } from "./dom.js";
import { smallPicture } from "./picture.js";
import { nameOf, run } from "./run.js";

export const countMoved = (moves) => moves.reduce((sum, move) => sum + move.count, 0);

/** A section for every pair of groups between which images would move. */
export const drawMoves = (moves) => moves.map((move) => element("section", { class: "panel result" },
  element("header", {}, groupLabel(move.from), element("span", { "aria-label": "to" }, "→"), groupLabel(move.to), element("span", { class: "note" }, counted(move.count, "image"))),
  element("div", { class: "pictures" }, move.rows.map((row) => smallPicture(row, move.rows, 64))),
  move.count > move.rows.length ? element("p", { class: "note" }, `and ${number(move.count - move.rows.length)} more`) : ""));

function groupLabel(which) {
  const group = run.byNumber.get(which);
  if (!group) return element("strong", {}, which < 0 ? "No group" : `Group ${which}`);
  return tint(element("strong", {}, dot(), nameOf(group)), group);
}
