// Small pictures. Those that are needed at the same time come from the server in one strip.

import { element } from "./dom.js";
import { run } from "./run.js";
import { showFromSheet } from "./thumbs.js";

const PER_STRIP = 24, AT_ONCE = 4;
const SIDES = [64, 96, 128, 160, 192, 256];

const known = new Map(); // "row side" -> where its picture is
let wanted = []; // tiles without a picture yet, the latest last
const loading = new Set(); // strips that were requested
let planned = false;

/** A square picture of an image, about `width` pixels on the page. It stays blank unless it is put on the page immediately. */
export function tile(row, width = 112) {
  const pixels = width * Math.min(2, devicePixelRatio || 1);
  const most = run.info.side || 160;
  const side = SIDES.find((size) => size >= Math.min(pixels, most)) || SIDES.at(-1);
  const made = element("span", { class: "thumb" });
  const place = known.get(`${row} ${side}`);
  if (place) show(made, place);
  else {
    wanted.push({ made, row, side });
    if (!planned) {
      planned = true;
      queueMicrotask(() => { planned = false; fetchNext(); });
    }
  }
  return made;
}


function fetchNext() {
  // Cancel strips whose tiles were all scrolled away, so that tiles on the screen do not wait for them.
  for (const strip of loading) if (wanted.length && !strip.batch.some((tile) => tile.made.isConnected)) strip.cancel();
  while (loading.size < AT_ONCE && wanted.length) {
    // Forget tiles that were scrolled away. The latest tiles are on the screen now.
    wanted = wanted.filter((tile) => tile.made.isConnected);
    if (!wanted.length) return;
    const side = wanted.at(-1).side;
    const batch = [];
    for (let place = wanted.length - 1; place >= 0 && batch.length < PER_STRIP; place--)
      if (wanted[place].side === side) batch.unshift(...wanted.splice(place, 1));
    load(batch, side);
  }
}

function load(batch, side) {
  const rows = [...new Set(batch.map((tile) => tile.row))];
  const address = `/strip/${run.info.images}?side=${side}&rows=${rows}`;
  const picture = new Image();
  const strip = { batch, cancel: () => { loading.delete(strip); picture.onload = picture.onerror = null; picture.src = ""; } };
  loading.add(strip);
  picture.onload = () => {
    rows.forEach((row, index) => known.set(`${row} ${side}`, { address, index, count: rows.length }));
    for (const tile of batch) show(tile.made, known.get(`${tile.row} ${side}`));
    loading.delete(strip);
    fetchNext();
  };
  picture.onerror = () => {
    for (const tile of batch) tile.made.classList.add("ready", "lost");
    loading.delete(strip);
    fetchNext();
  };
  picture.src = address;
}

function show(made, { address, index, count }) {
  showFromSheet(made, address, { columns: count, column: index });
  made.classList.add("ready");
}

/** One small picture, as an image to draw on a canvas. */
export function picture(row, side) {
  const image = new Image();
  image.src = `/strip/${run.info.images}?side=${side}&rows=${row}`;
  return image;
}

export const largePicture = (row) => `/picture/${run.info.images}/${row}`;
