// Groups within groups: the merge tree down to a cut, with pictures at its ends; drag the cut, then make its groups.

import { button, counted, dot, element, percent, tint } from "./dom.js";
import { smallPicture } from "./picture.js";
import { nameOf, run } from "./run.js";

const MOSTLY = 0.9; // an end with fewer of its images in one group says how many
const ROW = 60; // the height of an end in the picture of the tree; the style sheet has its own in pixels
let cut = null; // how many groups the user looks at

/** Fill `place`; `make(groups)` starts a training from the cut, and `plausible` are numbers to jump to. */
export function drawTree(place, tree, plausible, make) {
  cut = Math.min(tree.most, Math.max(2, cut ?? run.info.groups.length));
  const slider = element("input", { type: "range", min: "2", max: String(tree.most), "aria-label": "Groups to cut the tree into" });
  const count = element("output", {});
  const go = button("Make these groups", () => make(cut), { class: "main" });
  const drawing = element("div", { class: "dendrogram" });
  const show = (groups) => {
    cut = groups;
    slider.value = String(groups);
    slider.setAttribute("aria-valuetext", counted(groups, "group"));
    count.textContent = counted(groups, "group");
    for (const jump of place.querySelectorAll(".jump")) jump.setAttribute("aria-pressed", String(jump.textContent === String(groups)));
    draw(drawing, tree, groups);
  };
  slider.addEventListener("input", () => show(Number(slider.value)));
  const jumps = plausible.filter((groups) => groups <= tree.most);
  place.replaceChildren(element("h2", {}, "Groups within groups"),
    element("p", { class: "note" }, "Groups that look alike are joined first, on the right; those that differ most are joined last. Cut the tree where its groups are what you want."),
    element("div", { class: "panel tree-panel" },
      element("div", { class: "cut" }, element("label", { class: "cut-at" }, "Cut into ", count, slider),
        jumps.length > 1 ? element("span", { class: "jumps" }, "Plausible: ", jumps.map((groups) => button(String(groups), () => show(groups), { class: "do jump", "aria-label": counted(groups, "group") }))) : null, go),
      drawing));
  show(cut);
}

/** Where there is no tree yet: cutting makes one. */
export function offerTree(place, make) {
  const count = element("input", { type: "number", min: "2", value: String(Math.max(2, run.info.groups.length)), "aria-label": "Groups to cut the tree into" });
  place.replaceChildren(element("h2", {}, "Groups within groups"),
    element("p", { class: "note" }, "This run has no tree of groups yet, because you set the number of groups. The first cut creates it."),
    element("p", { class: "into" }, count, "groups", button("Cut into these", () => make(Number(count.value)), { class: "do" })));
}

/** The tree above a cut: an end for each of its groups, and the lines that join them. */
function draw(place, tree, groups) {
  const leaves = tree.merges.length + 1;
  const ends = [], lines = [];
  const x = (merge) => (100 * (leaves - 2 - merge)) / Math.max(1, groups - 1); // the last merge is on the left
  /** Draws a node; returns its height on the page and the group that all its ends are mostly in. */
  function node(which, from) {
    const merge = which - leaves, own = tree.nodes[which];
    if (merge < leaves - groups) {
      ends.push(own);
      const y = (ends.length - 0.5) * ROW;
      lines.push([own.group, `M${from} ${y}H100`]);
      return { y, group: own.group };
    }
    const at = x(merge);
    const parts = [...tree.merges[merge]].sort((a, b) => tree.nodes[b].images - tree.nodes[a].images).map((part) => node(part, at));
    const group = parts[0].group === parts[1].group ? parts[0].group : null;
    const y = (parts[0].y + parts[1].y) / 2;
    lines.push([group, `M${from} ${y}H${at}M${at} ${parts[0].y}V${parts[1].y}`]);
    return { y, group };
  }
  node(2 * leaves - 2, -2);
  place.replaceChildren(drawing(lines, ends.length), element("ol", { class: "ends" }, ends.map(end)));
}

function drawing(lines, ends) {
  const svg = (tag, properties) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(properties)) made.setAttribute(name, value);
    return made;
  };
  const made = svg("svg", { viewBox: `-2 0 102 ${ends * ROW}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  for (const [which, shape] of lines) {
    const line = svg("path", { d: shape, fill: "none", "vector-effect": "non-scaling-stroke" }), group = run.byNumber.get(which);
    if (group) tint(line, group).setAttribute("class", "own");
    made.append(line);
  }
  return made;
}

function end(own) {
  const group = run.byNumber.get(own.group);
  const images = own.share < MOSTLY ? `${counted(own.images, "image")}, ${percent(own.share)} from this group` : counted(own.images, "image");
  const made = element("li", {},
    element("span", { class: "pictures" }, own.pictures.map((row) => smallPicture(row, own.pictures, 48))),
    element("span", { class: "what", title: `${percent(own.share)} of these images are in ${nameOf(group)} now` },
      element("span", { class: "which" }, group ? dot() : null, nameOf(group)), element("small", {}, images)));
  return group ? tint(made, group) : made;
}
