// Check: yes, no or unsure for images drawn at random; what is known of all images grows with every answer.

import { button, byId, counted, dot, element, percent, tint } from "./dom.js";
import { ask, edit, nameOf, run, undo } from "./run.js";
import { smallPicture } from "./picture.js";
import { largePicture } from "./tiles.js";

let images = 50, now = null;

export function show(view) {
  view.replaceChildren(element("div", { class: "check-view" }, element("div", { id: "question" }), element("aside", { id: "known", class: "panel", "aria-label": "What the answers say" })));
  return draw();
}

export function leave() {
  now = null;
}

export const refresh = () => draw();

async function draw() {
  const found = await ask(`/api/check?images=${images}`);
  if (!byId("question")) return;
  now = found;
  byId("question").replaceChildren(...(found.questions.length ? question(found.questions[0]) : end()));
  byId("known").replaceChildren(...known());
  if (found.questions[1]) new Image().src = largePicture(found.questions[1].row); // ready when it is asked for
}

function question({ row, group, centers }) {
  const which = run.byNumber.get(group), done = now.images - now.left;
  return [
    element("p", { class: "eyebrow" }, `${done + 1} of ${now.images}`),
    tint(element("h2", { class: "asked" }, "Is this image in the right group, ", dot(), element("strong", {}, nameOf(which)), "?"), which),
    element("div", { class: "judged" },
      element("img", { class: "large", src: largePicture(row), alt: run.path[row] }),
      element("div", {}, element("h4", {}, "Typical of this group"), element("div", { class: "pictures" }, centers.map((other) => smallPicture(other, centers, 96))))),
    element("div", { class: "answers" },
      answer("Yes", "yes", "Y", row), answer("No", "no", "N", row), answer("Unsure", "unsure", "U", row),
      button("Back", back, { class: "quiet", disabled: run.info.undo?.kind !== "check", title: "Undo the last answer. Key: B" })),
    element("p", { class: "note" }, run.path[row]),
  ];
}

const answer = (label, value, key, row) => button(element("span", {}, label, " ", element("kbd", {}, key)), () => give(row, value), { class: `answer ${value}` });
const give = (row, value) => edit({ kind: "check", row, answer: value });
const back = () => run.info.undo?.kind === "check" && undo();

function end() {
  return [element("h2", {}, `${counted(now.images, "image")} checked`), element("p", {}, "More answers make the interval narrower."),
    element("div", { class: "buttons" }, button("Check 50 more", () => { images += 50; draw(); }, { class: "main" }), button("Back", back, { disabled: run.info.undo?.kind !== "check" }))];
}

function known() {
  const { yes, no, unsure } = now.answers, { low, high, value } = now.accuracy;
  const parts = [element("h3", {}, "What the answers say")];
  if (low === undefined) parts.push(element("p", { class: "note" }, "Two answers are needed for a first estimate. About 50 give a useful one."));
  else parts.push(element("p", { class: "value" }, percent(value), element("small", {}, ` of all images are right`)), interval(low, high, value),
    element("p", { class: "note" }, `Between ${percent(low)} and ${percent(high)}, with 95% confidence.`), element("p", { class: "promise" }, sentence(now.promise)));
  parts.push(element("dl", {}, element("dt", {}, "Yes"), element("dd", {}, yes), element("dt", {}, "No"), element("dd", {}, no), element("dt", {}, "Unsure"), element("dd", {}, unsure)));
  for (const part of now.groups) {
    const group = run.byNumber.get(part.group);
    if (group) parts.push(tint(element("div", { class: "purity" }, element("span", {}, dot(), nameOf(group)), element("small", {}, part.words), interval(part.low, part.high, part.value)), group));
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

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1).replace("; try --keep", "; try an accuracy of")}.`;

/** Keys of this view; whether one was meant for it. */
export function key(event) {
  const row = now?.questions[0]?.row;
  const does = { y: () => give(row, "yes"), n: () => give(row, "no"), u: () => give(row, "unsure") }[event.key];
  if (event.key === "b") back();
  else if (does && row !== undefined) does();
  else return false;
  return true;
}
