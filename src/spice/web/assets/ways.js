// How images would move, shown before anything changes.

import { counted, dot, element, number, tint } from "./dom.js";
import { smallPicture } from "./picture.js";
import { nameOf, run } from "./run.js";

export const movedBy = (ways) => ways.reduce((sum, way) => sum + way.count, 0);

/** A section for every pair of groups between which images would move. */
export const drawWays = (ways) => ways.map((way) => element("section", { class: "panel result" },
  element("header", {}, which(way.from), element("span", { "aria-label": "to" }, "→"), which(way.to), element("span", { class: "note" }, counted(way.count, "image"))),
  element("div", { class: "pictures" }, way.rows.map((row) => smallPicture(row, way.rows, 64))),
  way.count > way.rows.length ? element("p", { class: "note" }, `and ${number(way.count - way.rows.length)} more`) : ""));

function which(group) {
  const found = run.byNumber.get(group);
  const made = element("strong", {}, found ? dot() : "", found ? nameOf(found) : group < 0 ? "No group" : `Group ${group}`);
  return found ? tint(made, found) : made;
}
