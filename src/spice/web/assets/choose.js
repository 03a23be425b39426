// Choosing a group: type a part of its name, or use the arrow keys, then press Enter.

import { counted, dialog, dot, element, tint } from "./dom.js";
import { attempt, nameOf, shownGroups } from "./run.js";
import { tile } from "./tiles.js";

const COMPARED = 64; // images, at most, by which groups are ordered

/**
 * Ask for a group, the most similar to the images `rows` first. Resolves to its number, to null for a new group (where `allowNew`), or to
 * undefined if the dialog was closed. `without`: numbers of groups that cannot be chosen.
 */
export function chooseGroup(title, rows, { without = new Set(), allowNew = false } = {}) {
  return new Promise((resolve) => {
    let answer, groups = null; // null until their order is known: Enter chooses nothing before
    const list = element("ul", { class: "choices", role: "listbox", id: "choices", "aria-label": title });
    const input = element("input", { type: "search", placeholder: "name or number", "aria-label": "Find a group", autocomplete: "off", role: "combobox", "aria-expanded": "true", "aria-controls": "choices" });
    const box = dialog(title, "choose", element("h3", {}, title), input, list);
    box.addEventListener("close", () => resolve(answer));
    let active = 0;

    function choose(number) {
      answer = number;
      box.close();
    }

    function draw() {
      if (!groups) return;
      const text = input.value.trim().toLowerCase(), isNumber = (group) => String(group.number) === text;
      const found = groups.filter((group) => isNumber(group) || `${nameOf(group)} ${group.suggested}`.toLowerCase().includes(text))
        .sort((a, b) => isNumber(b) - isNumber(a));
      const items = found.map((group) => tint(element("li", { role: "option", onclick: () => choose(group.number), data: { number: group.number } },
        dot(), group.typical.length ? tile(group.typical[0], 36) : "",
        element("span", { class: "choice" }, element("span", {}, nameOf(group), " ", group.suggested && element("small", {}, `${group.suggested}?`)), element("small", {}, counted(group.size, "image")))), group));
      if (allowNew) items.push(element("li", { role: "option", class: "new", onclick: () => choose(null) }, "New group"));
      list.replaceChildren(...items);
      active = Math.max(0, Math.min(active, items.length - 1));
      mark();
    }

    function mark() {
      [...list.children].forEach((item, place) => {
        item.id = `choice-${place}`;
        item.setAttribute("aria-selected", String(place === active));
      });
      list.children[active]?.scrollIntoView({ block: "nearest" });
      input.setAttribute("aria-activedescendant", `choice-${active}`);
    }

    input.addEventListener("input", () => { active = 0; draw(); });
    input.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) {
        event.preventDefault();
        active = (active + step + list.children.length) % Math.max(1, list.children.length);
        mark();
      }
      if (event.key === "Enter") {
        event.preventDefault();
        list.children[active]?.click();
      }
    });
    input.focus();
    attempt(`/api/similar?rows=${rows.slice(0, COMPARED)}`).then((found) => {
      const place = new Map(found?.groups.map((number, index) => [number, index])), last = place.size;
      groups = shownGroups().filter((group) => !without.has(group.number))
        .sort((a, b) => (place.get(a.number) ?? last) - (place.get(b.number) ?? last));
      draw();
    });
  });
}
