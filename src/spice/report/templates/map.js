// The map: every image is a point on a canvas; hover, zoom, drag, arrow keys.

function startMap(canvas) {
  const context = canvas.getContext("2d");
  const hint = byId("map-hint");
  const count = data.x.length;
  const view = { scale: 1, left: 0, top: 0 }; // the visible part of the unit square
  let width = 0, height = 0, active = -1, alone = null, drawing = 0, stale = true;
  const layer = document.createElement("canvas"), points = layer.getContext("2d"); // all points, drawn once

  const side = () => Math.min(width, height) - 32;
  const toX = (x) => width / 2 + (x / 10000 - 0.5 - view.left) * side() * view.scale;
  const toY = (y) => height / 2 + (y / 10000 - 0.5 - view.top) * side() * view.scale;

  function resize() {
    const box = canvas.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
    width = box.width;
    height = box.height;
    layer.width = canvas.width = Math.round(width * ratio);
    layer.height = canvas.height = Math.round(height * ratio);
    for (const pen of [context, points]) pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    redraw();
  }

  const isDark = () => getComputedStyle(document.documentElement).colorScheme === "dark";
  const byCluster = (image) => data.cluster[image];
  const byChance = (image) => Math.min(9, Math.floor(data.chance[image] / 100));

  // From orange through gray to blue: distinct with any color vision. page.css has the same colors for the scale.
  function trustColor(share) {
    const ends = [[214, 92, 20], [150, 145, 140], [40, 120, 215]];
    const from = share < 0.5 ? 0 : 1, part = share * 2 - from;
    return ends[from].map((value, channel) => Math.round(value + part * (ends[from + 1][channel] - value))).join();
  }

  // Points are drawn color by color: setting a color costs more than drawing a point.
  function groupByColor() {
    const chance = byId("map-color").value === "chance";
    const fade = byId("map-fade").checked;
    const groups = new Map();
    for (let image = 0; image < count; image++) {
      const color = chance ? byChance(image) : byCluster(image);
      const faint = (fade && !chance && !data.reliable[image]) || (alone !== null && data.cluster[image] !== alone);
      const key = color * 2 + (faint ? 0 : 1);
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(image);
    }
    return [...groups].sort((a, b) => (a[0] & 1) - (b[0] & 1)).map(([key, images]) => ({
      images,
      alpha: key & 1 ? 0.9 : 0.24,
      color: chance
        ? `rgb(${trustColor((key >> 1) / 9)})`
        : data.colors[key >> 1][isDark() ? 1 : 0],
    }));
  }

  let painted = groupByColor();
  const regroup = () => { painted = groupByColor(); redraw(); };
  const redraw = () => { stale = true; draw(); };
  const radius = () => Math.max(1.1, Math.min(4.5, 90 / Math.sqrt(count))) * Math.min(2.5, Math.sqrt(view.scale));

  function draw() {
    cancelAnimationFrame(drawing);
    drawing = requestAnimationFrame(() => {
      if (stale) drawPoints(radius());
      stale = false;
      context.clearRect(0, 0, width, height);
      if (layer.width && layer.height) context.drawImage(layer, 0, 0, width, height);
      if (active >= 0) ring(radius() + 3);
    });
  }

  function drawPoints(radius) {
    points.clearRect(0, 0, width, height);
    for (const { images, alpha, color } of painted) {
      points.globalAlpha = alpha;
      points.fillStyle = color;
      points.beginPath();
      for (const image of images) {
        const x = toX(data.x[image]), y = toY(data.y[image]);
        if (x < -9 || y < -9 || x > width + 9 || y > height + 9) continue;
        if (radius < 2) points.rect(x - radius, y - radius, 2 * radius, 2 * radius);
        else { points.moveTo(x + radius, y); points.arc(x, y, radius, 0, 7); }
      }
      points.fill();
    }
  }

  function ring(radius) {
    context.lineWidth = 2;
    context.strokeStyle = getComputedStyle(canvas).color;
    context.beginPath();
    context.arc(toX(data.x[active]), toY(data.y[active]), radius, 0, 7);
    context.stroke();
  }

  function nearest(x, y, within, allowed = () => true) {
    let best = -1, least = within * within;
    for (let image = 0; image < count; image++) {
      const dx = toX(data.x[image]) - x, dy = toY(data.y[image]) - y, distance = dx * dx + dy * dy;
      if (distance < least && (alone === null || data.cluster[image] === alone) && allowed(dx, dy)) {
        best = image;
        least = distance;
      }
    }
    return best;
  }

  function activate(image) {
    if (image === active) return;
    active = image;
    hint.hidden = image < 0;
    if (image >= 0) {
      hint.replaceChildren(thumbnail(image), text("strong", data.path[image]), text("div", facts(image)));
      const x = toX(data.x[image]), y = toY(data.y[image]);
      hint.style.left = `${Math.max(4, x + 16 + hint.offsetWidth > width ? x - 16 - hint.offsetWidth : x + 16)}px`;
      hint.style.top = `${Math.max(4, Math.min(y - 40, height - hint.offsetHeight - 4))}px`;
    }
    draw();
  }

  function zoom(factor, x = width / 2, y = height / 2) {
    const scale = Math.max(1, Math.min(40, view.scale * factor));
    view.left += ((x - width / 2) / side()) * (1 / view.scale - 1 / scale);
    view.top += ((y - height / 2) / side()) * (1 / view.scale - 1 / scale);
    view.scale = scale;
    if (scale === 1) view.left = view.top = 0;
    redraw();
  }

  let dragged = null, moved = false;
  canvas.addEventListener("pointerdown", (event) => { dragged = [event.clientX, event.clientY]; moved = false; });
  canvas.addEventListener("pointermove", (event) => {
    if (dragged && event.buttons) {
      const dx = event.clientX - dragged[0], dy = event.clientY - dragged[1];
      moved ||= Math.abs(dx) + Math.abs(dy) > 4;
      if (moved) {
        view.left -= dx / (side() * view.scale);
        view.top -= dy / (side() * view.scale);
        dragged = [event.clientX, event.clientY];
        activate(-1);
        redraw();
      }
      return;
    }
    activate(nearest(event.offsetX, event.offsetY, 14));
  });
  canvas.addEventListener("pointerleave", () => activate(-1));
  canvas.addEventListener("click", (event) => {
    dragged = null;
    if (moved) return;
    activate(nearest(event.offsetX, event.offsetY, 18));
    if (active >= 0) showDetail(active);
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return; // the wheel alone scrolls the page
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 200), event.offsetX, event.offsetY);
  }, { passive: false });

  const directions = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 1.5 : 1 / 1.5);
    if (event.key === "Escape") activate(-1);
    if (event.key === "Enter" && active >= 0) {
      event.preventDefault(); // otherwise the same key would press the dialog's close button
      showDetail(active);
    }
    const to = directions[event.key];
    if (!to) return;
    event.preventDefault();
    const x = active < 0 ? width / 2 : toX(data.x[active]), y = active < 0 ? height / 2 : toY(data.y[active]);
    // Ahead means within 45 degrees of the arrow.
    const ahead = (dx, dy) => dx * to[0] + dy * to[1] > Math.abs(dx * to[1]) + Math.abs(dy * to[0]) && Math.abs(dx) + Math.abs(dy) > 0.01;
    const next = nearest(x, y, Infinity, active < 0 ? undefined : ahead);
    if (next >= 0) activate(next);
  });

  byId("map-in").addEventListener("click", () => zoom(1.5));
  byId("map-out").addEventListener("click", () => zoom(1 / 1.5));
  byId("map-color").addEventListener("change", (event) => {
    const chance = event.target.value === "chance";
    byId("map-scale").hidden = !chance;
    byId("map-fade").disabled = chance;
    regroup();
  });
  byId("map-fade").addEventListener("change", regroup);
  byId("map-legend").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const chosen = Number(button.dataset.cluster);
    alone = alone === chosen ? null : chosen;
    for (const other of byId("map-legend").querySelectorAll("button"))
      other.setAttribute("aria-pressed", String(alone !== null && Number(other.dataset.cluster) === alone));
    regroup();
  });
  addEventListener("themechange", regroup);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", regroup);
  new ResizeObserver(resize).observe(canvas);
}

if (byId("map-canvas")) startMap(byId("map-canvas"));
