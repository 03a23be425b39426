// Learn: sort all images again, using the corrections. The result is shown before it is used.

import { button, byId, counted, element, percent, say } from "./dom.js";
import { ask, attempt, change, run } from "./run.js";
import { drawProgress, drawTraining } from "./training.js";
import { countMoved, drawMoves } from "./moves.js";

export function show(view) {
  const joint = element("details", { class: "joint" }, element("summary", {}, "Joint training (takes minutes)"), element("div", { id: "joint" }));
  view.replaceChildren(element("div", { class: "intro" }, element("h1", {}, "Learn from my corrections"),
    element("p", { class: "note lead" }, "All images are sorted again, using your corrections. This takes seconds. Images that you placed yourself stay where they are.")),
  element("div", { id: "learning" }), joint);
  draw();
  drawJoint().then(() => { if (joint.querySelector("progress, .proposal, .warning")) joint.open = true; }); // training in progress is not hidden
}

export const refresh = () => { draw(); drawJoint(); };

async function draw() {
  const place = byId("learning");
  if (!place) return;
  const found = await ask("/api/learn");
  place.replaceChildren(...(found.running ? drawProgress({ ...found, task: "learning" }, () => send("cancel")) : found.moves ? proposal(found.moves) : start(found)));
  if (found.running) setTimeout(draw, 250);
}

const send = async (what) => {
  await attempt(`/api/learn/${what}`, { version: run.info.version });
  draw();
};

function start(found) {
  return [
    found.edits ? "" : steps(),
    element("p", {}, found.edits ? `You placed ${counted(found.placed, "image")} and named ${counted(found.named, "group")} (${counted(found.edits, "edit")} in total).` : "You have not edited anything yet, so there is nothing to learn from."),
    found.error ? element("p", { class: "warning" }, found.error) : "",
    element("div", { class: "buttons" }, button("Learn", () => send("start"), { class: "main", disabled: found.edits === 0 })),
  ];
}

/** What to do before there is anything to learn from. */
const steps = () => element("ol", { class: "steps panel" }, [
  ["Name your groups", "Merge groups that show the same thing.", "groups"],
  ["Move wrong images", "Begin with the most doubtful ones.", "images?sort=doubt"],
  ["Learn", "You see which images would move before you accept.", null],
].map(([title, text, where]) => element("li", {}, element("strong", {}, where ? element("a", { href: `#${where}` }, title) : title), element("span", { class: "note" }, text))));

function proposal(moves) {
  const total = countMoved(moves);
  if (!total) return [element("p", {}, "No image would move: the groups agree with your corrections."), element("div", { class: "buttons" }, button("Close", () => send("cancel")))];
  return [
    element("div", { class: "head" }, element("h2", {}, `${counted(total, "image")} would move`),
      button("Accept", (event) => accept(event.target, "/api/learn/accept", "Accepted. Undo reverts it."), { class: "main" }), button("Discard", () => send("cancel"))),
    ...drawMoves(moves),
  ];
}

async function drawJoint() {
  const place = byId("joint");
  if (place) await drawTraining(place, (begin) => [
    element("p", { class: "note lead" }, "Also trains the encoder, on reliable images and on those that you placed. This can help an encoder that was trained on your images; with a built-in encoder it gained nothing in our measurements. You see the result before it is used, and the earlier one is kept."),
    element("div", { class: "buttons" }, button("Train", () => begin(null)))], trained);
}

/** The result of joint training. */
function trained(found, send) {
  const total = countMoved(found.moves), none = !found.used || !total;
  const verdict = found.used ? (found.failed.length ? `Checks were switched off; these failed: ${found.failed.join("; ")}.` : "It passed the checks, which need no labels.") : `The groups stay as they are: ${found.failed.join("; ")}.`;
  return [element("div", { class: "proposal" },
    element("div", { class: "head" }, element("h2", {}, none ? "No image would move" : `${counted(total, "image")} (${percent(total / run.path.length)}) would move`),
      none ? "" : button("Accept", (event) => accept(event.target, "/api/training/accept", "Accepted. The earlier result is kept, under How many."), { class: "main" }), button(none ? "Close" : "Discard", () => send("cancel"))),
    element("p", {}, element("span", { class: `grade ${found.used ? "good" : "weak"}` }, found.used ? "passed" : "rejected"), ` ${verdict} It learned from ${counted(found.learned, "image")}, ${found.placed} of them placed by you.`),
    found.checks.length ? checks(found.checks) : "", ...(none ? [] : drawMoves(found.moves)))];
}

function checks(rows) {
  const change = new Map([[true, "better"], [false, "worse"], [null, "same"]]);
  const line = (row) => element("tr", {}, element("th", { scope: "row" }, row.name, element("small", {}, row.meaning)), element("td", {}, row.before), element("td", {}, row.after),
    element("td", {}, element("span", { class: change.get(row.better) }, change.get(row.better))));
  return element("div", { class: "panel scroll" }, element("table", { class: "list checks" },
    element("thead", {}, element("tr", {}, ["Measure (no labels used)", "Before", "After", ""].map((title) => element("th", { scope: "col" }, title)))), element("tbody", {}, rows.map(line))));
}

async function accept(pressed, address, message) {
  pressed.disabled = true; // a second click would find nothing to accept
  if (await change(address, {})) say(message);
  else pressed.disabled = false;
}
