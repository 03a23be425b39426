// Export: write the groups beside the run folder, in a format for people or for other programs.

import { button, capitalized, element } from "./dom.js";
import { ask, attempt, nameOf, run, shownGroups } from "./run.js";

const FORMATS = {
  folders: "one folder per group", imagefolder: "one folder per group, for training (imagefolder)", csv: "a table (csv)", parquet: "a table (parquet)", labelstudio: "Label Studio tasks",
  fiftyone: "a FiftyOne data set", cvat: "CVAT", xmp: "keywords for Lightroom and digiKam (XMP sidecars)",
};

export async function show(view) {
  const found = await ask("/api/export");
  if (document.body.dataset.view !== "export") return; // another view was opened meanwhile
  const shape = element("select", { id: "export-shape" }, found.shapes.map((value) => element("option", { value }, FORMATS[value] || value)));
  const which = element("select", { id: "export-which" }, element("option", { value: "" }, "all images in groups"), element("option", { value: "kept" }, "kept images (after a check)"),
    shownGroups().filter((group) => group.size).map((group) => element("option", { value: String(group.number) }, `${nameOf(group)} (${group.size})`)));
  const name = element("input", { type: "text", id: "export-name", value: `${run.info.title.replace(/\.[^.]*$/, "").replace(/[/\\]/g, "-")}-groups`, maxlength: "120", spellcheck: "false", autocomplete: "off" });
  const copied = element("input", { type: "checkbox", id: "export-copy" });
  const message = element("p", { role: "status" });
  const go = button("Export", async () => {
    go.disabled = true;
    message.textContent = "Writing …";
    const done = await attempt("/api/export", { shape: shape.value, name: name.value.trim(), kept: which.value === "kept", group: /^\d+$/.test(which.value) ? Number(which.value) : null, copied: copied.checked });
    message.textContent = done ? `${capitalized(done.message)}.` : "";
    go.disabled = false;
  }, { class: "main" });
  view.replaceChildren(
    element("div", { class: "intro" }, element("h1", {}, "Export"), element("p", { class: "note lead" }, `Your images are linked or copied, never moved or changed. The new folder is created in ${found.folder}, and nothing is overwritten.`)),
    element("form", { class: "export panel", onsubmit: (event) => { event.preventDefault(); go.click(); } },
      element("label", {}, "Format ", shape), element("label", {}, "Images ", which), element("label", {}, "Name of the new folder or file ", name),
      element("label", { class: "check" }, copied, " Copy the images instead of linking to them"), element("div", { class: "buttons" }, go), message),
    element("p", { class: "table-link" }, element("a", { class: "do", href: "/labels.csv", download: "labels.csv" }, "Download labels.csv"), element("span", { class: "note" }, "One row per image, with your names and corrections.")));
}
