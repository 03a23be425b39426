// Groups within groups: the merge tree down to a cut, with pictures of the groups there. Drag the cut, then try its groups.

import { button, counted, dot, element, percent, tint } from "./dom.js";
import { smallPicture } from "./picture.js";
import { nameOf, run } from "./run.js";

const MOSTLY = 0.9; // below this share of its images in one group, an end shows the share
const ROW = 60; // height of an end in units of the drawing; its height in pixels is --row in the style sheet
let cut = null; // number of groups at the cut

/** Fill `place`. `start(groups)` trains from the cut; `plausible`: numbers to jump to. */
export function drawTree(place, tree, plausible, start) {
  cut = Math.min(tree.most, Math.max(2, cut ?? run.info.groups.length));
  const slider = element("input", { type: "range", min: "2", max: String(tree.most), "aria-label": "Groups to cut the tree into" });
  const count = element("output", {});
  const go = button("Try these groups", () => start(cut), { class: "main" });
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
    element("p", { class: "note" }, "The most similar groups are joined first, on the right; those that differ most are joined last. Cut the tree where its groups suit you."),
    element("div", { class: "panel tree-panel" },
      element("div", { class: "cut" }, element("label", { class: "cut-at" }, "Cut into ", count, slider),
        jumps.length > 1 ? element("span", { class: "jumps" }, "Plausible: ", jumps.map((groups) => button(String(groups), () => show(groups), { class: "do jump", "aria-label": counted(groups, "group") }))) : null, go),
      drawing));
  show(cut);
}

/** The same for a run that has no tree yet. */
export function offerTree(place, start) {
  const count = element("input", { type: "number", min: "2", value: String(Math.max(2, run.info.groups.length)), "aria-label": "Groups to cut the tree into" });
  place.replaceChildren(element("h2", {}, "Groups within groups"),
    element("p", { class: "note" }, "This run has no tree of groups yet, because you set the number of groups. The first cut creates it."),
    element("p", { class: "into" }, count, "groups", button("Try them", () => start(Number(count.value)), { class: "do" })));
}

/** The tree down to a cut: an end for each group there, and the lines that join them. */
function draw(place, tree, groups) {
  const leaves = tree.merges.length + 1;
  const ends = [], lines = [];
  const x = (merge) => (100 * (leaves - 2 - merge)) / Math.max(1, groups - 1); // the last merge is on the left
  /** Draw a node; returns its height in the drawing, and the group that all its ends mostly belong to. */
  function drawNode(number, from) {
    const merge = number - leaves, node = tree.nodes[number];
    if (merge < leaves - groups) {
      ends.push(node);
      const y = (ends.length - 0.5) * ROW;
      lines.push([node.group, `M${from} ${y}H100`]);
      return { y, group: node.group };
    }
    const at = x(merge);
    const parts = [...tree.merges[merge]].sort((a, b) => tree.nodes[b].images - tree.nodes[a].images).map((part) => drawNode(part, at));
    const group = parts[0].group === parts[1].group ? parts[0].group : null;
    const y = (parts[0].y + parts[1].y) / 2;
    lines.push([group, `M${from} ${y}H${at}M${at} ${parts[0].y}V${parts[1].y}`]);
    return { y, group };
  }
  drawNode(2 * leaves - 2, -2);
  place.replaceChildren(drawLines(lines, ends.length), element("ol", { class: "ends" }, ends.map(end)));
}

function drawLines(lines, ends) {
  const svg = (tag, properties) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(properties)) made.setAttribute(name, value);
    return made;
  };
  const made = svg("svg", { viewBox: `-2 0 102 ${ends * ROW}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  for (const [number, shape] of lines) {
    const line = svg("path", { d: shape, fill: "none", "vector-effect": "non-scaling-stroke" }), group = run.byNumber.get(number);
    if (group) tint(line, group).setAttribute("class", "colored");
    made.append(line);
  }
  return made;
}

function end(node) {
  const group = run.byNumber.get(node.group);
  const images = node.share < MOSTLY ? `${counted(node.images, "image")}, ${percent(node.share)} in this group` : counted(node.images, "image");
  const made = element("li", {},
    element("span", { class: "pictures" }, node.pictures.map((row) => smallPicture(row, node.pictures, 48))),
    element("span", { class: "end-label", title: `${percent(node.share)} of these images are in ${nameOf(group)} now` },
      element("span", { class: "group-label" }, group ? dot() : null, nameOf(group)), element("small", {}, images)));
  return group ? tint(made, group) : made;
}
