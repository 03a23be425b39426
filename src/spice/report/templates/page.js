// What all parts of the report share: the data, thumbnails, the dialog of one image.

const data = JSON.parse(document.getElementById("data").textContent);

// A sheet of small pictures is decoded when the first of them is needed.
const sheetUrls = new Map();
function sheetUrl(number) {
  if (!sheetUrls.has(number)) {
    const bytes = Uint8Array.from(atob(byId(`sheet-${number}`).textContent), (letter) => letter.charCodeAt(0));
    sheetUrls.set(number, URL.createObjectURL(new Blob([bytes], { type: "image/jpeg" })));
  }
  return sheetUrls.get(number);
}

function thumbnail(image) {
  const made = element("span", { class: "thumb" });
  const place = data.tiles ? data.tiles[image] : -1;
  if (place < 0) return made;
  const { columns } = data.sheet, sheet = Math.floor(place / (columns * columns)), inSheet = place % (columns * columns);
  showFromSheet(made, sheetUrl(sheet), { columns, rows: sheetRows(sheet), column: inSheet % columns, row: Math.floor(inSheet / columns) });
  return made;
}

// The last sheet may have fewer rows.
function sheetRows(sheet) {
  const { columns, count } = data.sheet;
  return Math.min(columns, Math.ceil((count - sheet * columns * columns) / columns));
}

const share = (thousandths) => percent(thousandths / 1000);
const facts = (image) => `${data.names[data.cluster[image]]}, chance ${share(data.chance[image])}`;

function showDetail(image, picture) {
  byId("detail-picture").replaceChildren(picture || thumbnail(image));
  byId("detail-name").textContent = data.path[image];
  const lines = [
    ["Group", data.names[data.cluster[image]]],
    ["Chance", `${share(data.chance[image])} that this is the right group`],
    ["Neighbors", `${share(data.reliability[image])} of the nearest images are in the same group${data.reliable[image] ? "" : `; reliable means more than ${percent(data.threshold)}`}`],
    ["Confidence", `${share(data.confidence[image])} (margin over ${data.names[data.other[image]]}: ${share(data.margin[image])})`],
    ["Closeness to center", `rank ${number(data.rank[image] + 1)} in its group`],
  ];
  byId("detail-facts").replaceChildren(...lines.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  byId("detail").showModal();
}

/** The place of a button's image in the data, which may hold a sample of all images. */
function listed(button) {
  const row = Number(button.dataset.row);
  return data.rows ? data.rows.indexOf(row) : row;
}

function withoutId(picture) {
  picture.removeAttribute("id");
  return picture;
}

function sortElements(list, key) {
  const order = { number: (e) => Number(e.dataset.number), size: (e) => -e.dataset.size, share: (e) => -e.dataset.share };
  const sorted = [...list.children].sort((a, b) => order[key](a) - order[key](b) || a.dataset.number - b.dataset.number);
  list.append(...sorted);
}

byId("theme").addEventListener("click", switchTheme);

for (const image of document.querySelectorAll("img[data-from]")) image.src = byId(image.dataset.from).src;

// A long list of verdicts is folded, so that the groups are not far down the page.
if (byId("verdicts").children.length > 30) {
  byId("verdicts").classList.add("folded");
  byId("all-verdicts").hidden = false;
  byId("all-verdicts").addEventListener("click", (event) => {
    byId("verdicts").classList.remove("folded");
    event.target.hidden = true;
  });
}

byId("sort-clusters").addEventListener("change", (event) => {
  for (const list of [byId("verdicts"), byId("cards")]) sortElements(list, event.target.value);
});

byId("cards").addEventListener("click", (event) => {
  const button = event.target.closest(".picture");
  if (!button) return;
  const picture = button.querySelector("img");
  showDetail(listed(button), picture && withoutId(picture.cloneNode()));
});

for (const button of document.querySelectorAll(".alike .one")) {
  const image = listed(button);
  button.append(thumbnail(image));
  button.setAttribute("aria-label", data.path[image]);
  button.addEventListener("click", () => showDetail(image));
}

byId("attention")?.addEventListener("change", (event) => byId("cards").classList.toggle("attending", event.target.checked));
byId("detail").addEventListener("click", (event) => event.target === byId("detail") && byId("detail").close());
