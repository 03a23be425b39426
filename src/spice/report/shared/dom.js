// Elements of the page. Names of files and groups only ever become text.

export const byId = (id) => document.getElementById(id);

/** An element: `element("button", { class: "quiet", onclick: f }, "Text", child)`. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name === "data") Object.assign(made.dataset, value);
    else if (name in made && typeof value !== "string") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export const button = (label, onclick, properties = {}) => element("button", { type: "button", onclick, ...properties }, label);

/** A dot in the color that `tint` gave to an element around it. */
export const dot = () => element("span", { class: "dot", "aria-hidden": "true" });

export const number = (value) => value.toLocaleString("en");
export const counted = (count, thing) => `${number(count)} ${thing}${count === 1 ? "" : "s"}`;
export const capitalized = (text) => text.charAt(0).toUpperCase() + text.slice(1);
export const percent = (share) => `${Math.round(100 * share)}%`;

/** Give an element, and the dots in it, the color of a group. */
export function tint(made, group) {
  made.style.setProperty("--on-light", group.colors[0]);
  made.style.setProperty("--on-dark", group.colors[1]);
  return made;
}

export const isDark = () => getComputedStyle(document.documentElement).colorScheme === "dark";

export function switchTheme() {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  dispatchEvent(new Event("themechange"));
}

/** Show a message at the bottom of the page, with at most one button. */
export function say(text, { action, onaction, bad = false } = {}) {
  const line = element("p", { class: bad ? "message bad" : "message" }, text);
  if (action) line.append(button(action, () => { line.remove(); onaction(); }, { class: "quiet" }));
  byId("messages").replaceChildren(line);
  clearTimeout(say.timer);
  say.timer = setTimeout(() => line.remove(), bad ? 12000 : action ? 7000 : 4000);
}

/** Open a dialog that is removed when it closes. The focus then returns to where it was. */
export function dialog(label, className, ...children) {
  const before = document.activeElement;
  const made = element("dialog", { class: className, "aria-label": label },
    button("×", () => made.close(), { class: "quiet close", "aria-label": "Close" }), ...children);
  made.addEventListener("click", (event) => event.target === made && made.close());
  made.addEventListener("close", () => { made.remove(); if (before?.isConnected) before.focus(); });
  document.body.append(made);
  made.showModal();
  return made;
}
