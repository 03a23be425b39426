// The list of images: search by name, filter by group and chance, sort. It grows page by page.

const PAGE = 96;
const lowered = data.path.map((path) => path.toLowerCase());
const sorts = {
  rank: (a, b) => data.rank[a] - data.rank[b],
  doubt: (a, b) => data.chance[a] - data.chance[b],
  margin: (a, b) => data.margin[a] - data.margin[b],
  confidence: (a, b) => data.confidence[b] - data.confidence[a],
  path: (a, b) => (lowered[a] < lowered[b] ? -1 : lowered[a] > lowered[b] ? 1 : 0),
};
let matches = [], shown = 0;

function search() {
  const wanted = byId("search").value.trim().toLowerCase();
  const cluster = byId("in-cluster").value, trust = byId("trust").value, least = byId("least").value * 1000;
  byId("least-value").textContent = `from ${percent(byId("least").value)}`;
  matches = [];
  for (let image = 0; image < lowered.length; image++) {
    if (cluster !== "" && data.cluster[image] !== Number(cluster)) continue;
    if (trust !== "" && data.reliable[image] !== Number(trust)) continue;
    if (data.chance[image] < least || !lowered[image].includes(wanted)) continue;
    matches.push(image);
  }
  matches.sort(sorts[byId("sort").value]);
  byId("match-count").textContent = `${counted(matches.length, "image")}.`;
  byId("gallery").replaceChildren();
  shown = 0;
  showMore();
}

function showMore() {
  const next = matches.slice(shown, shown + PAGE);
  byId("gallery").append(...next.map(item));
  shown += next.length;
  byId("more").hidden = shown >= matches.length;
}

function item(image) {
  const cluster = data.cluster[image], doubtful = !data.reliable[image];
  const made = button([thumbnail(image), ...caption(data.names[cluster], share(data.chance[image]), doubtful ? "low" : "", data.path[image])], () => showDetail(image),
    { title: data.path[image], "aria-label": `${data.path[image]}, ${facts(image)}${doubtful ? ", not reliable" : ""}` });
  return tint(element("li", {}, made), { colors: data.colors[cluster] });
}

byId("controls").addEventListener("input", search);
byId("controls").addEventListener("submit", (event) => event.preventDefault());
byId("more").addEventListener("click", showMore);
byId("cards").addEventListener("click", (event) => {
  const link = event.target.closest("[data-show]");
  if (!link) return;
  byId("controls").reset();
  byId("in-cluster").value = link.dataset.show;
  search();
});
search();
