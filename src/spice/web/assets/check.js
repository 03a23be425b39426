// Check: answer yes, no or unsure for randomly drawn images. Every answer makes the estimate for all images more precise.

import { button, byId, capitalized, counted, dot, element, percent, tint } from "./dom.js";
import { ask, edit, nameOf, run, undo } from "./run.js";
import { smallPicture } from "./picture.js";
import { largePicture } from "./tiles.js";

let images = 50, check = null;

export function show(view) {
  view.replaceChildren(element("div", { class: "check-view" }, element("div", { id: "question" }), element("aside", { id: "estimates", class: "panel", "aria-label": "Result so far" })));
  return draw();
}

export function leave() {
  check = null;
}

export const refresh = () => draw();

async function draw() {
  const found = await ask(`/api/check?images=${images}`);
  if (!byId("question")) return;
  check = found;
  byId("question").replaceChildren(...(found.questions.length ? question(found.questions[0]) : end()));
  byId("estimates").replaceChildren(...estimates());
  if (found.questions[1]) new Image().src = largePicture(found.questions[1].row); // load the next picture in advance
}

function question({ row, group, centers }) {
  const itsGroup = run.byNumber.get(group), done = check.images - check.left;
  return [
    element("p", { class: "eyebrow" }, `${done + 1} of ${check.images}`),
    tint(element("h2", { class: "asked" }, "Is this image in the right group, ", dot(), element("strong", {}, nameOf(itsGroup)), "?"), itsGroup),
    element("div", { class: "judged" },
      element("img", { class: "large", src: largePicture(row), alt: run.path[row] }),
      element("div", {}, element("h4", {}, "Typical of this group"), element("div", { class: "pictures" }, centers.map((other) => smallPicture(other, centers, 96))))),
    element("div", { class: "answers" },
      answerButton("Yes", "yes", "Y", row), answerButton("No", "no", "N", row), answerButton("Unsure", "unsure", "U", row),
      button("Back", back, { class: "quiet", disabled: run.info.undo?.kind !== "check", title: "Undo the last answer. Key: B" })),
    element("p", { class: "note" }, run.path[row]),
  ];
}

const answerButton = (label, value, key, row) => button(element("span", {}, label, " ", element("kbd", {}, key)), () => give(row, value), { class: `answer ${value}` });
const give = (row, value) => edit({ kind: "check", row, answer: value });
const back = () => run.info.undo?.kind === "check" && undo();

function end() {
  return [element("h2", {}, `${counted(check.images, "image")} checked`), element("p", {}, "More answers make the interval narrower."),
    element("div", { class: "buttons" }, button("Check 50 more", () => { images += 50; draw(); }, { class: "main" }), button("Back", back, { disabled: run.info.undo?.kind !== "check" }))];
}

function estimates() {
  const { yes, no, unsure } = check.answers, { low, high, value } = check.accuracy;
  const parts = [element("h3", {}, "Result so far")];
  if (low === undefined) parts.push(element("p", { class: "note" }, "A first estimate needs two answers; a useful one needs about 50."));
  else parts.push(element("p", { class: "value" }, percent(value), element("small", {}, " of all images are right")), interval(low, high, value),
    element("p", { class: "note" }, `Between ${percent(low)} and ${percent(high)}, with 95% confidence.`), element("p", { class: "promise" }, `${capitalized(check.promise)}.`));
  parts.push(element("dl", {}, element("dt", {}, "Yes"), element("dd", {}, yes), element("dt", {}, "No"), element("dd", {}, no), element("dt", {}, "Unsure"), element("dd", {}, unsure)));
  for (const estimate of check.groups) {
    const group = run.byNumber.get(estimate.group);
    if (group) parts.push(tint(element("div", { class: "purity" }, element("span", {}, dot(), nameOf(group)), element("small", {}, estimate.words), interval(estimate.low, estimate.high, estimate.value)), group));
  }
  return parts;
}

function interval(low, high, value) {
  const made = element("span", { class: "interval", role: "img", "aria-label": `${percent(value)}, between ${percent(low)} and ${percent(high)}` }, element("i", {}), element("b", {}));
  made.firstChild.style.left = `${100 * low}%`;
  made.firstChild.style.width = `${100 * (high - low)}%`;
  made.lastChild.style.left = `${100 * value}%`;
  return made;
}

/** Handle a key of this view; returns whether it was one. */
export function key(event) {
  const row = check?.questions[0]?.row;
  const value = { y: "yes", n: "no", u: "unsure" }[event.key];
  if (event.key === "b") back();
  else if (value && row !== undefined) give(row, value);
  else return false;
  return true;
}
