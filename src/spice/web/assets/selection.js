// The selected images, and what can be done with them. Shared by the list and the map.

import { button, byId, counted, element, say } from "./dom.js";
import { chooseGroup } from "./choose.js";
import { edit, groupOf, nameOf, run } from "./run.js";

export const selected = new Set();

export function select(rows, { only = false } = {}) {
  if (only) selected.clear();
  for (const row of rows) selected.add(row);
  changed();
}

export function toggle(row) {
  if (!selected.delete(row)) selected.add(row);
  changed();
}

export function clear() {
  selected.clear();
  changed();
}

function changed() {
  show();
  dispatchEvent(new Event("selection"));
}

export async function move(rows) {
  const here = new Set(rows.map((row) => run.group[row]));
  const choice = await chooseGroup(`Move ${counted(rows.length, "image")} to`, rows, { without: here.size === 1 ? here : new Set(), allowNew: true });
  if (choice === undefined) return;
  if (await edit({ kind: "move", rows, group: choice })) {
    const target = choice === null ? groupOf(rows[0]) : run.byNumber.get(choice);
    say(`${counted(rows.length, "image")} moved to ${nameOf(target)}.`);
    clear();
  }
}

export async function reject(rows) {
  if (await edit({ kind: "reject", rows })) {
    say(`${counted(rows.length, "image")} moved to the next best group.`);
    clear();
  }
}

async function pair(kind) {
  if (await edit({ kind, rows: [...selected] })) {
    say(kind === "same" ? "Saved: these two images belong to the same group." : "Saved: these two images belong to different groups.");
    clear();
  }
}

const pairOnly = (kind) => (selected.size === 2 ? pair(kind) : say("Select two images first."));

/** What keys do to the selected images. */
export const actions = { m: () => move([...selected]), n: () => reject([...selected]), t: () => pairOnly("same"), d: () => pairOnly("different") };

function show() {
  const bar = byId("selection");
  bar.hidden = selected.size === 0;
  if (bar.hidden) return bar.replaceChildren();
  const two = selected.size === 2;
  bar.replaceChildren(...[
    element("strong", {}, counted(selected.size, "image")),
    button("Move to …", actions.m, { title: "Key: M" }),
    button("Not this group", actions.n, { title: "Moves them to the next best group. Key: N" }),
    two && button("Same group", actions.t, { title: "Key: T" }),
    two && button("Different groups", actions.d, { title: "Key: D" }),
    button("Clear", clear, { class: "quiet", title: "Key: Escape" }),
  ].filter(Boolean));
}
