// Points drawn into an array of pixels: 100,000 of them take a few milliseconds, without any graphics hardware.

/** `#rrggbb` as a pixel. */
export function pixel(color, alpha = 255) {
  const value = parseInt(color.slice(1), 16);
  return ((alpha << 24) | ((value & 255) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
}

/** Which pixels around a point a disc covers, and how far: offsets with a share of 0 to 1. */
function disc(radius) {
  const covered = [];
  const reach = Math.ceil(radius);
  for (let y = -reach; y <= reach; y++)
    for (let x = -reach; x <= reach; x++) {
      const share = Math.min(1, radius + 0.5 - Math.hypot(x, y));
      if (share > 0.05) covered.push([x, y, share]);
    }
  return { reach, covered };
}

/** Draw `order`'s points, last on top; `placed(image, at)` sets at[0], at[1] to pixels and returns the point's color. */
export function drawPoints(context, width, height, radius, order, placed) {
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const { reach, covered } = disc(radius);
  const full = Int32Array.from(covered.filter(([, , share]) => share === 1).map(([x, y]) => y * width + x));
  const edge = covered.filter(([, , share]) => share < 1);
  const edgeOffset = Int32Array.from(edge.map(([x, y]) => y * width + x)), edgeShare = Float32Array.from(edge.map(([, , share]) => share));
  const at = new Int32Array(2);
  for (let place = 0; place < order.length; place++) {
    const color = placed(order[place], at);
    if (at[0] < reach || at[1] < reach || at[0] >= width - reach || at[1] >= height - reach) continue;
    const middle = at[1] * width + at[0];
    for (let step = 0; step < full.length; step++) pixels[middle + full[step]] = color;
    for (let step = 0; step < edgeOffset.length; step++) pixels[middle + edgeOffset[step]] = mixed(pixels[middle + edgeOffset[step]], color, edgeShare[step]);
  }
  context.putImageData(image, 0, 0);
}

function mixed(below, above, share) {
  const alpha = above >>> 24, under = below >>> 24;
  if (under === 0) return ((Math.round(alpha * share) << 24) | (above & 0xffffff)) >>> 0;
  const rest = 1 - share;
  const channel = (shift) => Math.round(((above >>> shift) & 255) * share + ((below >>> shift) & 255) * rest) << shift;
  return ((Math.round(alpha * share + under * rest) << 24) | channel(16) | channel(8) | channel(0)) >>> 0;
}

/** Whether a point is inside a polygon [[x, y], ...]. */
export function inside(polygon, x, y) {
  let within = false;
  for (let here = 0, before = polygon.length - 1; here < polygon.length; before = here++) {
    const [ax, ay] = polygon[here], [bx, by] = polygon[before];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) within = !within;
  }
  return within;
}
