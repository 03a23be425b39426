// One image: large, with its group, its chance and its nearest images.
import { button, dialog, dot, element, percent, tint } from "./dom.js";
import { ask, groupOf, nameOf, run } from "./run.js";
import { move, reject } from "./selection.js";
import { largePicture, tile } from "./tiles.js";

const NEAREST = 18;

/** A small picture that opens the large one; `list`: the images that the arrow keys go through. */
export const smallPicture = (row, list, width) => element("button", { type: "button", class: "picture", "aria-label": run.path[row], title: run.path[row], onclick: () => showPicture(row, list) }, tile(row, width));

/** `list`: the images that the arrow keys go through. */
export function showPicture(row, list = [row]) {
  const large = element("img", { class: "large", alt: "" });
  const name = element("h3", {});
  const facts = element("dl", {});
  const near = element("div", { class: "pictures near" });
  const act = element("div", { class: "buttons" },
    button("Move to …", () => move([row]), { title: "Key: M" }), button("Not this group", () => reject([row]), { title: "Key: N" }),
    button("List similar images", () => { box.close(); location.hash = `#images?near=${row}`; }));
  const box = dialog("Image", "picture-box",
    element("div", { class: "stage" }, large),
    element("div", { class: "beside" }, name, facts, act, element("h4", {}, "Nearest images ", element("small", {}, "why it is in this group")), near));

  async function draw(next) {
    row = next;
    large.src = largePicture(row);
    large.alt = run.path[row];
    name.textContent = run.path[row];
    drawFacts();
    near.replaceChildren();
    try {
      const found = await ask(`/api/nearest/${row}`);
      if (row !== next) return;
      near.replaceChildren(...found.rows.slice(0, NEAREST).map((other, place) => {
        const group = groupOf(other);
        const made = element("button", { type: "button", class: "picture", title: `${run.path[other]}\n${nameOf(group)}, similarity ${found.similarity[place].toFixed(2)}`,
          "aria-label": `${run.path[other]}, ${nameOf(group)}`, onclick: () => draw(other) }, tile(other, 72), dot());
        return group ? tint(made, group) : made;
      }));
    } catch (error) {
      near.replaceChildren(element("p", { class: "note" }, error.message));
    }
  }

  function drawFacts() {
    const group = groupOf(row);
    const where = element("dd", {}, dot(), nameOf(group));
    if (group) tint(where, group);
    const lines = [element("dt", {}, "Group"), where];
    if (run.person[row]) lines.push(element("dt", {}, "Placed by"), element("dd", {}, "you"));
    else lines.push(element("dt", {}, "Chance"), element("dd", {}, `${percent(run.chance[row] / 1000)}${run.reliable[row] ? ", reliable" : ""}${run.outlier[row] ? ", unlike all other images" : ""}`));
    facts.replaceChildren(...lines);
  }

  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const action = { m: () => move([row]), n: () => reject([row]) }[event.key];
    if (event.ctrlKey || event.metaKey || (!step && !action)) return;
    event.preventDefault();
    if (action) action();
    const place = list.indexOf(row) + step;
    if (step && place >= 0 && place < list.length) draw(list[place]);
  });
  addEventListener("run", drawFacts);
  box.addEventListener("close", () => removeEventListener("run", drawFacts));
  draw(row);
}
