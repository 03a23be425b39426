// Choosing a group: type a part of its name, arrow keys, Enter.

import { counted, dialog, dot, element, tint } from "./dom.js";
import { nameOf, shownGroups } from "./run.js";
import { tile } from "./tiles.js";

/** Resolves to a group's number, to null for a new group, or to undefined if the user changed their mind. */
export function chooseGroup(title, { without = new Set(), fresh = false } = {}) {
  return new Promise((resolve) => {
    let answer;
    const groups = shownGroups().filter((group) => !without.has(group.number));
    const list = element("ul", { class: "choices", role: "listbox", id: "choices", "aria-label": title });
    const input = element("input", { type: "search", placeholder: "name or number", "aria-label": "Find a group", autocomplete: "off", role: "combobox", "aria-expanded": "true", "aria-controls": "choices" });
    const box = dialog(title, "choose", element("h3", {}, title), input, list);
    box.addEventListener("close", () => resolve(answer));
    let active = 0;

    function take(number) {
      answer = number;
      box.close();
    }

    function draw() {
      const part = input.value.trim().toLowerCase();
      const found = groups.filter((group) => nameOf(group).toLowerCase().includes(part));
      const items = found.map((group) => tint(element("li", { role: "option", onclick: () => take(group.number), data: { number: group.number } },
        dot(), group.typical.length ? tile(group.typical[0], 36) : "", element("span", { class: "choice-name" }, nameOf(group)), element("small", {}, counted(group.size, "image"))), group));
      if (fresh) items.push(element("li", { role: "option", class: "fresh", onclick: () => take(null) }, "New group"));
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
    draw();
    input.focus();
  });
}
