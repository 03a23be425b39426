// Map: select images and move them.

import { element, percent } from "./dom.js";
import { showPicture } from "./picture.js";
import { Plot } from "./plot.js";
import { groupOf, guessedName, nameOf, run, shownGroups } from "./run.js";
import { actions, clear, select, selected, toggle } from "./selection.js";
import { picture, tile } from "./tiles.js";

const pictures = new Map(); // of the groups on the map, by row
/** The map, while this view is open. */
export let plot = null;

const source = {
  wheel: true,
  columns: () => run,
  groups: () => shownGroups().filter((group) => group.size).map((group) => ({ ...group, name: guessedName(group), picture: pictureOf(group.typical[0]) })),
  sure: (image) => run.reliable[image] || run.person[image],
  describe: (image) => [tile(image, 128), element("strong", {}, run.path[image].split("/").at(-1)),
    element("div", {}, `${nameOf(groupOf(image))}, ${run.person[image] ? "placed by you" : `chance ${percent(run.chance[image] / 1000)}`}`)],
  open: (image) => showPicture(image),
  selected,
  toggle,
  select,
  keys: { ...actions, Escape: clear },
};

export function show(place) {
  plot = new Plot(place, source);
}

export function leave() {
  plot = null;
}

export function refresh() {
  plot?.refresh();
}

function pictureOf(row) {
  if (!pictures.has(row)) pictures.set(row, picture(row, 96));
  return pictures.get(row);
}

addEventListener("selection", refresh);
addEventListener("themechange", refresh);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
