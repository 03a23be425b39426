// How many groups: the results of the run, switching between them, and trying other numbers.

import { button, byId, counted, element, percent, say } from "./dom.js";
import { ask, attempt, change, nameOf, run } from "./run.js";
import { tile } from "./tiles.js";
import { drawTraining } from "./training.js";
import { drawTree, offerTree } from "./tree.js";

const AND = new Intl.ListFormat("en", { type: "conjunction" });

export function show(view) {
  view.replaceChildren(element("div", { class: "intro" }, element("h1", {}, "How many groups?"),
    element("p", { class: "note lead" }, "Every number of groups that you try is kept. Names and corrections carry over when you switch.")),
  element("div", { id: "results" }), element("div", { id: "another" }), element("div", { id: "tree" }));
  draw();
}

export const refresh = () => draw();

async function draw() {
  const [found, tree] = await Promise.all([ask("/api/results"), ask("/api/tree")]);
  if (!byId("results")) return;
  byId("results").replaceChildren(...found.results.map(result));
  if (found.plausible.length) byId("results").append(element("h2", { class: "aside-title" }, "Also plausible"), ...found.plausible.map(plausible));
  await drawTraining(byId("another"), (begin) => [element("h2", {}, "Another number"),
    element("p", { class: "note" }, "The images are not encoded again, so this takes about a minute. Settings stay the same."), another(begin, found.command)]);
  const place = byId("tree"), cut = (groups) => tryNumber(groups, { cut: true });
  if (place && tree) drawTree(place, tree, found.numbers, cut);
  else if (place) offerTree(place, cut);
}

function result(one) {
  const words = [`${percent(one.reliable)} reliable`, `mean chance ${percent(one.chance)}`, one.encoder, one.created.slice(0, 10)];
  if (one.cut) words.splice(2, 0, "cut from the tree");
  if (one.refined === "yes") words.splice(2, 0, "refined");
  return element("article", { class: one.current ? "panel result current" : "panel result", "aria-label": `${counted(one.groups, "group")}, ${one.name}` },
    element("header", {}, element("h3", {}, counted(one.groups, "group")), element("span", { class: "note" }, words.join(" · ")),
      one.current ? element("strong", { class: "grade good" }, "shown now") : button("Show this", () => use(one), { class: "do" })),
    element("div", { class: "pictures" }, one.centers.map((row) => tile(row, 64))));
}

/** A number that was not tried yet, and what it would change. */
function plausible(one) {
  const named = (numbers) => AND.format(numbers.map((number) => nameOf(run.byNumber.get(number) || { number })));
  const few = (found, most) => (found.length > most ? [...found.slice(0, most - 1), `${found.length - most + 1} more`] : found);
  const words = [];
  if (one.joins.length) words.push(`merges ${few(one.joins.map(named), 3).join("; ")}`);
  if (one.splits.length) words.push(`splits ${few(one.splits.map((number) => named([number])), 4).join(", ")}`);
  return element("article", { class: "panel result", "aria-label": `${counted(one.groups, "group")}, not tried yet` },
    element("header", {}, element("h3", {}, counted(one.groups, "group")), element("span", { class: "note" }, words.join(" · ")), button("Try this", () => tryNumber(one.groups), { class: "do" })),
    element("div", { class: "pictures" }, one.centers.map((row) => tile(row, 64))));
}

async function tryNumber(groups, how = {}) {
  await attempt("/api/training/start", { version: run.info.version, groups, ...how });
  await draw();
  byId("another")?.scrollIntoView({ block: "center" });
}

async function use(one) {
  if (await change("/api/use", { result: one.name })) say(`Switched to ${counted(one.groups, "group")}.`);
}

/** Controls to try another number, here or in the terminal. */
function another(begin, text) {
  const count = element("input", { type: "number", min: "2", value: String(run.info.groups.length + 1), "aria-label": "Number of groups" });
  const line = element("code", {}, text.replace("NUMBER", count.value));
  count.addEventListener("input", () => { line.textContent = text.replace("NUMBER", count.value || "NUMBER"); });
  const copy = button("Copy", () => navigator.clipboard.writeText(line.textContent).then(() => say("Copied.")), { class: "do" });
  return element("div", {},
    element("p", { class: "into" }, count, "groups", button("Try it", () => begin(Number(count.value)), { class: "main" })),
    element("details", {}, element("summary", {}, "The same in the terminal"), element("p", { class: "command into" }, line, copy)));
}
