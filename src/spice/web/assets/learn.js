// Learn: what the program makes of the corrections; shown before it counts.

import { button, byId, counted, element, percent, say } from "./dom.js";
import { ask, attempt, change, run } from "./run.js";
import { drawProgress, drawTraining } from "./training.js";
import { drawWays, movedBy } from "./ways.js";

export function show(view) {
  const deeper = element("details", { class: "deeper" }, element("summary", {}, "Joint training (minutes)"), element("div", { id: "deeper" }));
  view.replaceChildren(element("div", { class: "intro" }, element("h1", {}, "Learn from my corrections"),
    element("p", { class: "note lead" }, "Takes seconds. All images are sorted again, using your corrections. Images that you placed yourself stay where they are.")),
  element("div", { id: "learning" }), deeper);
  draw();
  drawDeeper().then(() => { if (deeper.querySelector("progress, .proposal, .warning")) deeper.open = true; }); // what is under way is not hidden
}

export const refresh = () => { draw(); drawDeeper(); };

async function draw() {
  const place = byId("learning");
  if (!place) return;
  const found = await ask("/api/learn");
  place.replaceChildren(...(found.running ? drawProgress({ ...found, task: "learning" }, () => send("cancel")) : found.ways ? proposal(found.ways) : start(found)));
  if (found.running) setTimeout(draw, 250);
}

const send = async (what) => {
  await attempt(`/api/learn/${what}`, { version: run.info.version });
  draw();
};

function start(found) {
  return [
    found.edits ? "" : steps(),
    element("p", {}, `${counted(found.placed, "image")} placed by you, ${counted(found.named, "named group")}, ${counted(found.edits, "edit")} in all.`),
    found.error ? element("p", { class: "warning" }, found.error) : "",
    element("div", { class: "buttons" }, button("Learn", () => send("start"), { class: "main", disabled: found.edits === 0 })),
  ];
}

/** What to do before there is anything to learn from. */
const steps = () => element("ol", { class: "steps panel" }, [
  ["Name your groups", "and merge groups that show the same thing.", "groups"],
  ["Move wrong images", "to where they belong, the most doubtful first.", "images?sort=doubt"],
  ["Learn", "You see which images would move, then accept or discard this.", null],
].map(([title, text, where]) => element("li", {}, element("strong", {}, where ? element("a", { href: `#${where}` }, title) : title), element("span", { class: "note" }, text))));

function proposal(ways) {
  const total = movedBy(ways);
  if (!total) return [element("p", {}, "No image would move: the groups agree with your corrections."), element("div", { class: "buttons" }, button("Close", () => send("cancel")))];
  return [
    element("div", { class: "head" }, element("h2", {}, `${counted(total, "image")} would move`),
      button("Accept", () => accept("/api/learn/accept", "Accepted. Undo reverts it."), { class: "main" }), button("Discard", () => send("cancel"))),
    ...drawWays(ways),
  ];
}

async function drawDeeper() {
  const place = byId("deeper");
  if (place) await drawTraining(place, (begin) => [
    element("p", { class: "note lead" }, "Trains the encoder itself on reliable images and on those that you placed. It helps if the encoder was trained on your images; with a built-in encoder it gained nothing in our measurements. You see the result before it is used, and the earlier one is kept."),
    element("div", { class: "buttons" }, button("Train", () => begin(null)))], trained);
}

/** What joint training found. */
function trained(found, send) {
  const total = movedBy(found.ways), none = !found.used || !total;
  const verdict = found.used ? (found.failed.length ? `Checks were switched off; these failed: ${found.failed.join("; ")}.` : "It passed the checks, which need no labels.") : `The groups stay as they are: ${found.failed.join("; ")}.`;
  return [element("div", { class: "proposal" },
    element("div", { class: "head" }, element("h2", {}, none ? "No image would move" : `${counted(total, "image")} (${percent(total / run.path.length)}) would move`),
      none ? "" : button("Accept", () => accept("/api/training/accept", "Accepted. The earlier result is kept, under How many."), { class: "main" }), button(none ? "Close" : "Discard", () => send("cancel"))),
    element("p", {}, element("span", { class: `grade ${found.used ? "good" : "weak"}` }, found.used ? "passed" : "rejected"), ` ${verdict} It learned ${counted(found.learned, "image")}, ${found.placed} of them placed by you.`),
    found.checks.length ? checks(found.checks) : "", ...(none ? [] : drawWays(found.ways)))];
}

function checks(rows) {
  const words = new Map([[true, "better"], [false, "worse"], [null, "same"]]);
  const line = (row) => element("tr", {}, element("th", { scope: "row" }, row.name, element("small", {}, row.meaning)), element("td", {}, row.before), element("td", {}, row.after),
    element("td", {}, element("span", { class: words.get(row.better) }, row.better === null ? "the same" : words.get(row.better))));
  return element("div", { class: "panel scroll" }, element("table", { class: "list checks" },
    element("thead", {}, element("tr", {}, ["Measure (no labels used)", "Before", "After", ""].map((title) => element("th", { scope: "col" }, title)))), element("tbody", {}, rows.map(line))));
}

async function accept(address, message) {
  if (await change(address, {})) say(message);
}
