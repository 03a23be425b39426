// Learn: what the program makes of the corrections; shown before it counts.

import { button, byId, counted, element, number, say, tint } from "./dom.js";
import { ask, change, nameOf, run } from "./run.js";
import { showPicture } from "./picture.js";
import { tile } from "./tiles.js";
import { drawTraining } from "./training.js";

export function show(view) {
  view.replaceChildren(element("div", { class: "intro" }, element("h1", {}, "Learn from my corrections"),
    element("p", { class: "note lead" }, "A new head learns your names, moves, merges and pairs in seconds, and looks at all images again. What you decided is never overruled. You see what would move before anything changes.")),
  element("div", { id: "learning" }), element("details", { class: "deeper" }, element("summary", {}, "Joint training (minutes)"), element("div", { id: "deeper" })));
  draw();
  drawTraining(byId("deeper"), (begin) => [
    element("p", { class: "note lead" }, "Trains the encoder itself on reliable images and on those that you placed. It helps where the encoder was trained on your images; with a built-in encoder it gained nothing in our measurements. The result is kept beside this one, and used only if it passes checks."),
    element("div", { class: "buttons" }, button("Train", () => begin(null)))]);
}

export const refresh = () => draw();

async function draw() {
  const place = byId("learning");
  if (!place) return;
  const found = await ask("/api/learn");
  place.replaceChildren(...(found.running ? running(found) : found.ways ? proposal(found.ways) : start(found)));
  if (found.running) setTimeout(draw, 250);
}

const send = async (what) => {
  try {
    await ask(`/api/learn/${what}`, { version: run.info.version });
  } catch (error) {
    say(error.message, { bad: true });
  }
  draw();
};

function start(found) {
  return [
    element("p", {}, `${counted(found.placed, "image")} placed by you, ${counted(found.named, "named group")}, ${counted(found.edits, "edit")} in all.`),
    found.error ? element("p", { class: "warning" }, found.error) : "",
    element("div", { class: "buttons" }, button("Learn", () => send("start"), { class: "main", disabled: found.edits === 0 })),
    found.edits ? "" : element("p", { class: "note" }, "Name groups or move some images first."),
  ];
}

function running(found) {
  return [element("p", {}, "Learning …"), element("progress", { max: "1", value: found.progress, "aria-label": "Learning" }),
    element("div", { class: "buttons" }, button("Cancel", () => send("cancel")))];
}

function proposal(ways) {
  const total = ways.reduce((sum, way) => sum + way.count, 0);
  if (!total) return [element("p", {}, "No image would move: the groups agree with your corrections."), element("div", { class: "buttons" }, button("Close", () => send("cancel")))];
  return [
    element("div", { class: "head" }, element("h2", {}, `${counted(total, "image")} would move`),
      button("Accept", accept, { class: "main" }), button("Discard", () => send("cancel"))),
    ...ways.map((way) => element("section", { class: "panel result" },
      element("header", {}, which(way.from), element("span", { "aria-label": "to" }, "→"), which(way.to), element("span", { class: "note" }, counted(way.count, "image"))),
      element("div", { class: "pictures" }, way.rows.map((row) => element("button", { type: "button", class: "picture", "aria-label": run.path[row], onclick: () => showPicture(row, way.rows) }, tile(row, 64)))),
      way.count > way.rows.length ? element("p", { class: "note" }, `and ${number(way.count - way.rows.length)} more`) : "")),
  ];
}

function which(group) {
  const found = run.byNumber.get(group);
  const made = element("strong", {}, found ? element("span", { class: "dot", "aria-hidden": "true" }) : "", nameOf(found));
  return found ? tint(made, found) : made;
}

async function accept() {
  if (await change("/api/learn/accept", {})) say("Accepted. Undo takes it back.");
}
