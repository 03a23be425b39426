// Groups: a card for each; rename, merge, split, set aside.

import { button, byId, counted, dialog, dot, element, number, percent, say, tint } from "./dom.js";
import { chooseGroup } from "./choose.js";
import { smallPicture } from "./picture.js";
import { ask, edit, nameOf, run, shownGroups } from "./run.js";
import { tile } from "./tiles.js";

const MOST_LARGE = 24; // with more groups, cards are small
let order = "number";
const orders = {
  number: (a, b) => a.number - b.number,
  size: (a, b) => b.size - a.size,
  doubt: (a, b) => a.chance - b.chance,
  name: (a, b) => nameOf(a).localeCompare(nameOf(b), "en", { numeric: true }),
};

export function show(view) {
  view.replaceChildren(head(), element("div", { id: "merges" }), element("div", { class: "cards", id: "cards" }), element("div", { id: "aside" }));
  refresh();
}

function head() {
  const { info } = run;
  const right = info.groups.reduce((sum, group) => sum + group.chance * group.size, 0);
  return element("div", { class: "intro" },
    element("p", { class: "eyebrow" }, info.title),
    element("h1", {}, `${counted(info.count, "image")} in `, element("span", { id: "how-many" }), ", ", element("em", {}, `an estimated ${percent(right / Math.max(1, info.count))} in the right group`)),
    element("div", { class: "head" },
      element("p", { class: "note lead" }, "Click a name to change it. Press Merge, or drag one card onto another. Everything can be undone."),
      element("span", { id: "guesses" }), element("label", {}, "Sort by ", orderChoice())));
}

function orderChoice() {
  const labels = { number: "number", name: "name", size: "size", doubt: "chance" };
  const made = element("select", { id: "sort-groups", onchange: () => { order = made.value; refresh(); } },
    Object.entries(labels).map(([value, label]) => element("option", { value, selected: value === order }, label)));
  return made;
}

export function refresh() {
  const cards = byId("cards");
  if (!cards) return;
  const shown = shownGroups().filter((group) => group.size || group.name).sort(orders[order]);
  byId("how-many").textContent = counted(shown.length, "group");
  const focus = document.activeElement?.closest(".card")?.dataset.number;
  const small = shown.length > MOST_LARGE;
  cards.classList.toggle("compact", small);
  cards.replaceChildren(...shown.map((group) => card(group, small)));
  if (focus) cards.querySelector(`[data-number="${focus}"]`)?.focus();
  drawGuesses(shown);
  drawMerges();
  drawAside();
}

/** A button that accepts all suggested names. */
function drawGuesses(shown) {
  const names = Object.fromEntries(shown.filter((group) => group.suggested).map((group) => [group.number, group.suggested]));
  const count = Object.keys(names).length;
  byId("guesses").replaceChildren(...(count > 1 ? [button(`Accept ${count} suggested names`, async () => {
    if (await edit({ kind: "names", names })) say(`Named ${counted(count, "group")}. Undo reverts one name at a time.`);
  }, { class: "do" })] : []));
}

function card(group, small) {
  const title = element("input", {
    class: "group-name", value: nameOf(group), "aria-label": `Name of group ${group.number}`, maxlength: "200", spellcheck: "false",
    onfocus: () => { if (!group.name) title.value = ""; title.placeholder = nameOf(group); title.select(); },
    onblur: () => rename(group, title),
    onkeydown: (event) => {
      event.stopPropagation();
      if (event.key === "Enter") title.blur();
      if (event.key === "Escape") { title.value = nameOf(group); title.blur(); }
    },
  });
  const pictures = (rows, kind) => element("div", { class: `pictures ${kind}` }, rows.map((row) => smallPicture(row, rows, small ? 64 : kind === "doubts" ? 72 : 140)));
  const doubtful = small ? [] : group.doubtful;
  const made = tint(element("article", { class: "card", tabindex: "0", draggable: true, data: { number: group.number }, "aria-label": `${nameOf(group)}, ${counted(group.size, "image")}` },
    element("header", {}, dot(), title,
      group.suggested ? button(`${group.suggested}?`, () => edit({ kind: "name", group: group.number, name: group.suggested }), { class: "guess", title: `A guess. Click to call this group “${group.suggested}”.`, "aria-label": `Call group ${group.number} ${group.suggested}, a guess` }) : null,
      element("span", { class: "size", title: counted(group.size, "image") }, small ? number(group.size) : counted(group.size, "image"))),
    element("div", { class: "estimate", title: `About ${percent(group.chance)} of its images are in the right group (estimated from their neighbors)` },
      element("span", { class: "meter", "aria-hidden": "true" }, element("i", {})), element("small", {}, small ? percent(group.chance) : `about ${percent(group.chance)} right`)),
    pictures(small ? group.typical.slice(0, 4) : group.typical, "prototypes"),
    doubtful.length ? element("div", {}, element("h4", {}, "Most doubtful"), pictures(doubtful, "doubts")) : null,
    element("footer", { class: "actions" },
      element("a", { class: "do", href: `#images?group=${group.number}` }, "Show all"),
      button(small ? "Merge" : "Merge …", () => merge(group), { class: "do" }),
      button(small ? "Split" : "Split …", () => split(group), { class: "do", disabled: group.size < 2 }),
      button("Set aside", () => setAside(group), { class: "do", title: "Ignore this group: its images are in no group and are not exported" }))), group);
  made.querySelector(".meter i").style.width = percent(group.chance);
  made.addEventListener("keydown", (event) => keys(event, group, title, made));
  drag(made, group);
  return made;
}

function keys(event, group, title, made) {
  if (event.target !== made || event.ctrlKey || event.metaKey || event.altKey) return;
  const action = { Enter: () => title.focus(), r: () => title.focus(), m: () => merge(group), s: () => group.size > 1 && split(group), x: () => setAside(group), a: () => made.querySelector(".guess")?.click(), o: () => { location.hash = `#images?group=${group.number}`; } }[event.key];
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (action || step) event.preventDefault();
  if (action) action();
  if (step) {
    const cards = [...byId("cards").children];
    cards[(cards.indexOf(made) + step + cards.length) % cards.length].focus();
  }
}

function drag(made, group) {
  const allowed = (event) => event.dataTransfer.types.includes("text/spice-group");
  made.addEventListener("dragstart", (event) => {
    if (event.target.closest?.("input")) return event.preventDefault();
    event.dataTransfer.setData("text/spice-group", String(group.number));
    event.dataTransfer.effectAllowed = "move";
    made.classList.add("dragged");
  });
  made.addEventListener("dragend", () => made.classList.remove("dragged"));
  made.addEventListener("dragover", (event) => {
    if (!allowed(event) || made.classList.contains("dragged")) return;
    event.preventDefault();
    made.classList.add("target");
  });
  made.addEventListener("dragleave", (event) => made.contains(event.relatedTarget) || made.classList.remove("target"));
  made.addEventListener("drop", (event) => {
    made.classList.remove("target");
    if (!allowed(event)) return;
    event.preventDefault();
    const other = Number(event.dataTransfer.getData("text/spice-group"));
    if (other !== group.number) join(group.number, other);
  });
}

async function rename(group, title) {
  const name = title.value.trim().replace(/\s+/g, " ");
  const before = group.name;
  if (name === before || (!before && (name === "" || name === nameOf(group)))) {
    title.value = nameOf(group);
    return;
  }
  if (!(await edit({ kind: "name", group: group.number, name }))) title.value = nameOf(group);
}

async function merge(group) {
  const other = await chooseGroup(`Merge ${nameOf(group)} with`, group.typical, { without: new Set([group.number]) });
  if (other !== undefined) await join(group.number, other);
}

async function join(first, second) {
  const names = [first, second].map((number) => nameOf(run.byNumber.get(number)));
  if (await edit({ kind: "merge", groups: [first, second] })) say(`Merged ${names[0]} and ${names[1]}.`);
}

async function setAside(group) {
  if (await edit({ kind: "set_aside", group: group.number, aside: true })) say(`Set aside ${nameOf(group)}: its images are in no group.`);
}

/** Ask how to split a group, and show the parts before anything is changed. */
async function split(group) {
  let parts = [];
  const list = element("div", { class: "parts", "aria-live": "polite" });
  const into = element("input", { type: "number", min: "2", max: String(Math.min(12, group.size)), value: "2", "aria-label": "Number of parts" });
  const how = element("select", { "aria-label": "How to split" }, element("option", { value: "" }, "by visual similarity"), element("option", { value: "tree" }, "along the tree of groups"));
  const accept = button("Split", async () => {
    box.close();
    if (await edit({ kind: "split", group: group.number, parts: parts.slice(1) })) say(`Split ${nameOf(group)} into ${counted(parts.length, "group")}.`);
  }, { class: "main", disabled: true });
  const box = dialog(`Split ${nameOf(group)}`, "wide", element("h3", {}, `Split ${nameOf(group)}`),
    element("div", { class: "into" }, element("label", {}, "Into", into, "groups"), run.info.tree ? how : ""), list, element("div", { class: "buttons" }, accept));
  let latest = 0;
  async function preview() {
    const turn = ++latest;
    accept.disabled = true;
    list.replaceChildren(element("p", { class: "note" }, "Finding the parts …"));
    try {
      const found = (await ask("/api/split", { group: group.number, into: Number(into.value), tree: how.value === "tree" })).parts;
      if (turn !== latest) return;
      parts = found;
      list.replaceChildren(...parts.map((rows, place) => element("section", { class: "part" },
        element("h4", {}, place ? "New group " : `${nameOf(group)} `, element("small", {}, counted(rows.length, "image"))),
        element("div", { class: "pictures" }, rows.slice(0, 12).map((row) => tile(row, 72))))));
      accept.disabled = false;
    } catch (error) {
      if (turn === latest) list.replaceChildren(element("p", { class: "warning" }, error.message));
    }
  }
  for (const control of [into, how]) control.addEventListener("change", preview);
  into.focus();
  preview();
}

function drawMerges() {
  const { merges } = run.info;
  const place = byId("merges");
  place.replaceChildren();
  if (!merges.length) return;
  place.append(element("details", { class: "suggested", open: place.dataset.open === "yes", ontoggle: (event) => { place.dataset.open = event.target.open ? "yes" : "no"; } },
    element("summary", {}, `Suggested merges (${merges.length})`),
    element("div", { class: "columns" }, merges.map(suggestion))));
}

function suggestion(merge) {
  const groups = [merge.first, merge.second].map((number) => run.byNumber.get(number));
  const label = (group) => tint(element("span", { class: "group-label" }, dot(), nameOf(group)), group);
  return element("section", { class: "panel suggestion" },
    element("p", {}, label(groups[0]), " and ", label(groups[1])),
    element("p", { class: "note" }, `At least ${percent(merge.share)} of each group’s neighbors are in the other group. Their most similar images:`),
    element("div", { class: "pairs" }, merge.pairs.map(([first, second, similarity]) => element("span", { class: "pair", title: `similarity ${similarity.toFixed(2)}` },
      ...[first, second].map((row) => smallPicture(row, [first, second], 64))))),
    button("Merge", () => join(merge.first, merge.second), { class: "do" }));
}

function drawAside() {
  const groups = run.info.groups.filter((group) => group.aside);
  const place = byId("aside");
  place.replaceChildren();
  if (!groups.length) return;
  place.append(element("h2", { class: "aside-title" }, "Set aside"), element("ul", { class: "aside-list" }, groups.map((group) => tint(element("li", {},
    element("span", { class: "strip" }, group.typical.slice(0, 4).map((row) => tile(row, 41))),
    element("span", {}, nameOf(group), " ", element("small", {}, counted(group.size, "image"))),
    button("Bring back", () => edit({ kind: "set_aside", group: group.number, aside: false }), { class: "do" })), group))));
}
