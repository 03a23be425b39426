// The page: views, undo and redo, light and dark, keys.

import * as check from "./check.js";
import { byId, counted, dialog, element, say, switchTheme } from "./dom.js";
import * as exporting from "./export.js";
import * as groups from "./groups.js";
import * as howmany from "./howmany.js";
import * as learn from "./learn.js";
import * as images from "./images.js";
import * as map from "./map.js";
import { nameOf, open, redo, run, undo } from "./run.js";
import { clear, selected } from "./selection.js";

const VIEWS = { groups: ["Groups", groups], images: ["Images", images], map: ["Map", map], check: ["Check", check], howmany: ["How many", howmany], learn: ["Learn", learn], export: ["Export", exporting] };
let current = null;

function route() {
  const [name, query] = location.hash.slice(1).split("?");
  const wanted = VIEWS[name] && (name !== "map" || run.info.map) ? name : "groups";
  if (current) VIEWS[current][1].leave?.();
  current = wanted;
  document.body.dataset.view = wanted;
  for (const link of byId("tabs").children) {
    if (link.dataset.view === wanted) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ inline: "center", block: "nearest" }); // on a phone, not all links fit
    } else link.removeAttribute("aria-current");
  }
  VIEWS[wanted][1].show(byId("view"), new URLSearchParams(query));
  scrollTo(0, 0);
}

function drawTabs() {
  const names = Object.keys(VIEWS).filter((name) => name !== "map" || run.info.map);
  byId("tabs").replaceChildren(...names.map((name) => element("a", { href: `#${name}`, data: { view: name } }, VIEWS[name][0])));
}

function describeEdit(edit) {
  const group = (number) => nameOf(run.byNumber.get(number) || { number });
  const words = {
    name: () => `rename ${group(edit.group)}`, merge: () => `merge into ${group(edit.groups[0])}`, split: () => `split ${group(edit.group)}`,
    set_aside: () => `${edit.aside ? "set aside" : "bring back"} ${group(edit.group)}`, move: () => `move ${counted(edit.images, "image")}`,
    reject: () => `not in ${group(edit.group)}`, same: () => "same group", different: () => "different groups", learned: () => "learn from corrections", check: () => "answer",
  }[edit.kind];
  return words ? words() : "last change";
}

function drawUndo() {
  for (const [name, title, edit] of [["undo", "Undo", run.info.undo], ["redo", "Redo", run.info.redo]]) {
    const tool = byId(name);
    tool.disabled = !edit;
    tool.title = edit ? `${title}: ${describeEdit(edit)}` : title;
    tool.setAttribute("aria-label", tool.title);
  }
}

async function undoAndSay() {
  const edit = run.info.undo;
  if (edit && (await undo())) say(`Undone: ${describeEdit(edit)}.`, { action: "Redo", onaction: redo });
}

async function redoAndSay() {
  const edit = run.info.redo;
  if (edit && (await redo())) say(`Redone: ${describeEdit(edit)}.`);
}

// For each place, pairs of keys and what they do. Keys with a + between them are pressed together.
const KEYS = {
  "Everywhere": [["1 … 7", "Groups, Images, Map, …"], ["Ctrl+Z", "Undo"], ["Ctrl+Shift+Z", "Redo"], ["/", "Search by file name"], ["?", "This list"]],
  "On a card": [["Arrows", "Next card"], ["Enter", "Rename"], ["M", "Merge"], ["S", "Split"], ["A", "Accept the suggested name"], ["X", "Set aside"], ["O", "Show its images"]],
  "In a check": [["Y N U", "Yes, no, unsure"], ["B", "Back"]],
  "On images and the map": [["Arrows", "Next image"], ["Space", "Select"], ["Shift+Arrows", "Extend the selection"], ["Enter", "Enlarge"], ["M", "Move to a group"], ["N", "Not this group"],
    ["T D", "Two images: same group, different groups"], ["Ctrl+A", "Select all (list)"], ["L", "Lasso (map)"], ["+ − 0", "Zoom in, out, whole map"], ["Escape", "Clear the selection"]],
};

function showKeys() {
  dialog("Keyboard shortcuts", "keys-list", element("h3", {}, "Keyboard shortcuts"), element("div", { class: "columns" }, Object.entries(KEYS).map(([title, keys]) => element("section", {},
    element("h4", {}, title), element("dl", {}, keys.flatMap(([names, action]) => [element("dt", {}, names.split(" ").map((name) => element("kbd", {}, name))), element("dd", {}, action)]))))));
}

function keys(event) {
  const typing = event.target.closest?.("input, select, textarea");
  if ((event.ctrlKey || event.metaKey) && !typing) {
    const key = event.key.toLowerCase();
    if (key === "z" || key === "y") {
      event.preventDefault();
      (key === "y" || event.shiftKey ? redoAndSay : undoAndSay)();
    }
    return;
  }
  if (typing || event.altKey || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]")) return;
  const name = Object.keys(VIEWS)[Number(event.key) - 1];
  if (VIEWS[current][1].key?.(event)) return;
  if (name) location.hash = `#${name}`;
  else if (event.key === "?") showKeys();
  else if (event.key === "Escape" && selected.size) clear();
  else if (event.key === "/") {
    event.preventDefault();
    if (current !== "images") location.hash = "#images";
    setTimeout(() => byId("search")?.focus());
  }
}

byId("undo").addEventListener("click", undoAndSay);
byId("redo").addEventListener("click", redoAndSay);
byId("help").addEventListener("click", showKeys);
byId("theme").addEventListener("click", switchTheme);
addEventListener("keydown", keys);
addEventListener("hashchange", route);

try {
  await open();
  document.title = `${run.info.title} · spice`;
  drawTabs();
  drawUndo();
  route();
  addEventListener("run", (event) => {
    drawUndo();
    VIEWS[current][1].refresh?.(event.detail.whole);
  });
} catch (error) {
  byId("view").replaceChildren(element("p", { class: "warning" }, error.message));
}
