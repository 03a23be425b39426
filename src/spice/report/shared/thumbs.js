// Small pictures, cut out of sheets of many, and the captions below them.

import { dot, element } from "./dom.js";

/** Show the picture at (column, row) of a sheet of columns x rows pictures. */
export function showFromSheet(thumb, address, { columns, rows = 1, column, row = 0 }) {
  const share = (place, count) => (count > 1 ? `${(100 * place) / (count - 1)}%` : "0%");
  thumb.style.backgroundImage = `url("${address}")`;
  thumb.style.backgroundSize = `${columns * 100}% ${rows * 100}%`;
  thumb.style.backgroundPosition = `${share(column, columns)} ${share(row, rows)}`;
}

/** Group, chance and file name. `style`: "low" for a doubtful image, "you" for one that the user placed. */
export function caption(group, chance, style, name) {
  return [
    element("span", { class: "facts" }, dot(), element("span", { class: "group" }, group), element("span", { class: `trust ${style}` }, chance)),
    element("span", { class: "name" }, name),
  ];
}
