// The map of the listed images.

function startMap(place) {
  const sizes = new Map();
  for (const cluster of data.cluster) sizes.set(cluster, (sizes.get(cluster) || 0) + 1);
  const groups = data.guessed.map((name, cluster) => ({
    number: cluster, name, size: sizes.get(cluster) || 0, colors: data.colors[cluster], picture: document.querySelector(`#cluster-${cluster} .picture img`),
  })).filter((group) => group.size);
  const columns = { ...data, group: data.cluster };
  const plot = new Plot(place, {
    wheel: false,
    columns: () => columns,
    groups: () => groups,
    sure: (image) => data.reliable[image],
    describe: (image) => [thumbnail(image), element("strong", {}, data.path[image]), element("div", {}, facts(image))],
    open: (image) => showDetail(image),
  });
  addEventListener("themechange", () => plot.refresh());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plot.refresh());
  return plot;
}

const plot = byId("map") && startMap(byId("map"));
