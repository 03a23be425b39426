// Images: one list of all of them, to search, filter, sort and select.

import { button, byId, counted, element, percent, say, tint } from "./dom.js";
import { Grid } from "./grid.js";
import { showPicture } from "./picture.js";
import { attempt, groupOf, loweredPaths, nameOf, run, send } from "./run.js";
import { actions, clear, select, selected, toggle } from "./selection.js";
import { caption } from "./thumbs.js";
import { tile } from "./tiles.js";

const sorts = {
  rank: ["typical first", (a, b) => run.rank[a] - run.rank[b] || a - b],
  doubt: ["lowest chance first", (a, b) => run.chance[a] - run.chance[b] || a - b],
  sure: ["highest chance first", (a, b) => run.chance[b] - run.chance[a] || a - b],
  outlier: ["outliers first", (a, b) => run.outlier[b] - run.outlier[a] || run.chance[a] - run.chance[b] || a - b],
  path: ["file name", (a, b, names = loweredPaths()) => (names[a] < names[b] ? -1 : names[a] > names[b] ? 1 : a - b)],
};
const wanted = { text: "", group: "", show: "", sort: "rank" };
let grid = null, items = [], anchor = 0;
let near = null; // { title, rows }: the images nearest to one image, shown instead of all images

export function show(view, options) {
  if (options.has("near")) findNear(Number(options.get("near")));
  else if (options.size) near = null;
  if (options.has("group")) Object.assign(wanted, { text: "", show: "", group: options.get("group") });
  if (sorts[options.get("sort")]) wanted.sort = options.get("sort");
  if (options.has("selected")) Object.assign(wanted, { text: "", group: "", show: "selected" });
  grid = new Grid(cell, "Images");
  grid.inner.addEventListener("keydown", keys);
  listenForFiles(view);
  view.replaceChildren(controls(), element("p", { class: "note", id: "match-count", role: "status" }), grid.outer);
  find();
}

export function leave() {
  grid?.end();
  grid = null;
}

/** After an edit, images stay where they are, and only their captions change: so several can be corrected in a row. */
export function refresh(whole) {
  if (!grid) return;
  byId("controls").replaceWith(controls());
  if (whole) return find();
  grid.redraw();
  showCount();
}

function controls() {
  const pick = (name, label, choices) => element("label", {}, `${label} `, element("select", { id: `choose-${name}`, onchange: (event) => { wanted[name] = event.target.value; find(); } },
    choices.map(([value, text]) => element("option", { value: String(value), selected: String(value) === wanted[name] }, text))));
  const groups = run.info.groups.filter((group) => group.size).map((group) => [group.number, `${nameOf(group)} (${group.size})`]);
  return element("form", { class: "controls", id: "controls", role: "search", onsubmit: (event) => event.preventDefault() },
    element("label", { class: "wide" }, "File name ", element("input", { type: "search", id: "search", value: wanted.text, placeholder: "part of a name", autocomplete: "off", spellcheck: "false", oninput: (event) => { wanted.text = event.target.value; find(); } })),
    pick("group", "Group", [["", "all groups"], ...groups, ["-1", "no group"]]),
    pick("show", "Show", [["", "all images"], ["reliable", "reliable"], ["doubtful", "doubtful"], ["outlier", "outliers"], ["person", "placed by you"], ["selected", "selected"]]),
    exampleInput(),
    pick("sort", "Sort", Object.entries(sorts).map(([value, [text]]) => [value, text])));
}

function exampleInput() {
  const input = element("input", { type: "file", accept: "image/*", class: "visually-hidden", id: "example", onchange: () => input.files[0] && findExample(input.files[0]) });
  return element("label", { class: "example", title: "Or drop an image file on this page" }, "Similar to", element("span", { class: "do" }, "Choose image …"), input);
}

function find() {
  const text = wanted.text.trim().toLowerCase();
  const isShown = { "": () => true, reliable: (image) => run.reliable[image], doubtful: (image) => !run.reliable[image] && !run.person[image], outlier: (image) => run.outlier[image], person: (image) => run.person[image], selected: (image) => selected.has(image) }[wanted.show];
  const group = wanted.group === "" ? null : Number(wanted.group);
  items = [];
  for (const image of near ? near.rows : run.path.keys())
    if ((group === null || run.group[image] === group) && isShown(image) && (!text || loweredPaths()[image].includes(text))) items.push(image);
  if (!near) items.sort(sorts[wanted.sort][1]);
  anchor = 0;
  grid.show(items);
  showCount();
}

function showCount() {
  const place = byId("match-count");
  const count = items.length ? counted(items.length, "image") : "No images match";
  place.textContent = near ? `${count}, most similar to ${near.title} first. ` : `${count}.`;
  if (near) place.append(button("Show all images", () => { near = null; find(); }, { class: "do" }));
}

async function findNear(row) {
  const found = await attempt(`/api/nearest/${row}`);
  if (!found) return;
  near = { title: run.path[row], rows: [row, ...found.rows] };
  if (grid) find();
}

/** The images that are similar to a file from elsewhere. */
async function findExample(file) {
  say(`Finding images similar to ${file.name} …`);
  try {
    const answer = await send("/api/example", { method: "POST", body: file, headers: { "content-type": "application/octet-stream" } });
    near = { title: file.name, rows: (await answer.json()).rows };
    Object.assign(wanted, { text: "", group: "", show: "" });
    byId("controls").replaceWith(controls());
    say(`The images most similar to ${file.name} come first.`);
    find();
  } catch (error) {
    say(error.message, { bad: true });
  }
}

function listenForFiles(view) {
  view.ondragover = (event) => event.dataTransfer.types.includes("Files") && event.preventDefault();
  view.ondrop = (event) => {
    const file = event.dataTransfer.files[0];
    if (!file || !grid) return;
    event.preventDefault();
    findExample(file);
  };
}

function cell(image, width) {
  const group = groupOf(image);
  const made = element("div", { class: "item", role: "option", tabindex: "0", title: run.path[image], data: { image },
    "aria-label": `${run.path[image]}, ${nameOf(group)}${run.reliable[image] ? "" : ", doubtful"}`, "aria-selected": String(selected.has(image)) },
    tile(image, width),
    element("button", { type: "button", class: "enlarge", tabindex: "-1", "aria-label": "Enlarge" }, "⤢"),
    ...caption(nameOf(group), run.person[image] ? "you" : percent(run.chance[image] / 1000), run.person[image] ? "you" : run.reliable[image] ? "" : "low", run.path[image].split("/").at(-1)));
  made.addEventListener("click", (event) => {
    if (event.target.closest(".enlarge")) return showPicture(image, items);
    selectAt(Number(made.dataset.place), event.shiftKey);
  });
  made.addEventListener("dblclick", () => showPicture(image, items));
  return group ? tint(made, group) : made;
}

function selectAt(place, range) {
  if (range) {
    const [from, to] = [Math.min(anchor, place), Math.max(anchor, place)];
    select(items.slice(from, to + 1));
  } else {
    toggle(items[place]);
    anchor = place;
  }
}

function keys(event) {
  const at = event.target.closest?.(".item");
  if (!at || event.altKey) return;
  const place = Number(at.dataset.place);
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: grid.columns, ArrowUp: -grid.columns, Home: -place, End: items.length - 1 - place, PageDown: 4 * grid.columns, PageUp: -4 * grid.columns }[event.key];
  if (step !== undefined) {
    const next = Math.max(0, Math.min(items.length - 1, place + step));
    if (event.shiftKey) selectAt(next, true);
    grid.focus(next);
  } else if (event.ctrlKey || event.metaKey) {
    if (event.key !== "a") return;
    select(items);
  } else if (event.key === " ") selectAt(place, event.shiftKey);
  else if (event.key === "Enter") showPicture(items[place], items);
  else if (event.key === "Escape") clear();
  else if (actions[event.key]) {
    if (!selected.size) select([items[place]]);
    actions[event.key]();
  } else return;
  event.preventDefault();
}

addEventListener("selection", () => {
  for (const made of grid?.cells.values() || []) made.setAttribute("aria-selected", String(selected.has(Number(made.dataset.image))));
});
