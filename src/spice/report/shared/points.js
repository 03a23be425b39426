// Draws points into an array of pixels: a million take a fraction of a second, without graphics hardware.

/** `#rrggbb` as a pixel. */
export function pixel(color, alpha = 255) {
  const value = parseInt(color.slice(1), 16);
  return ((alpha << 24) | ((value & 255) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
}

/** The pixels that a disc around a point covers: offsets, and the covered share from 0 to 256. */
function disc(radius) {
  const covered = [];
  const reach = Math.ceil(radius);
  for (let y = -reach; y <= reach; y++)
    for (let x = -reach; x <= reach; x++) {
      const share = Math.min(1, radius + 0.5 - Math.hypot(x, y));
      if (share > 0.05) covered.push([x, y, Math.round(256 * share)]);
    }
  return { reach, covered };
}

/**
 * Draw the points in `order`, the last on top; returns how many of them are on the canvas.
 *
 * `x`, `y` and `colors` hold one number per image. A point is at (left, top) + scale * (x, y), in pixels.
 */
export function drawPoints(context, width, height, radius, order, { x, y, colors, left, top, scale }) {
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const { reach, covered } = disc(radius);
  const full = Int32Array.from(covered.filter(([, , share]) => share === 256).map(([x, y]) => y * width + x));
  const edge = covered.filter(([, , share]) => share < 256);
  const edgeOffset = Int32Array.from(edge.map(([x, y]) => y * width + x)), edgeShare = Int32Array.from(edge.map(([, , share]) => share));
  const right = width - reach, bottom = height - reach;
  let shown = 0;
  for (let place = 0; place < order.length; place++) {
    const point = order[place], atX = (left + x[point] * scale) | 0, atY = (top + y[point] * scale) | 0;
    if (atX < reach || atY < reach || atX >= right || atY >= bottom) continue;
    const middle = atY * width + atX, color = colors[point];
    shown++;
    for (let step = 0; step < full.length; step++) pixels[middle + full[step]] = color;
    for (let step = 0; step < edgeOffset.length; step++) {
      const at = middle + edgeOffset[step], below = pixels[at];
      if (below !== color) pixels[at] = mixed(below, color, edgeShare[step]);
    }
  }
  context.putImageData(image, 0, 0);
  return shown;
}

/** Blend two colors, two channels at a time: a channel times 256 fits into its 16 bits. */
function mixed(below, above, share) {
  if (below >>> 24 === 0) return ((((above >>> 24) * share) >> 8) << 24) | (above & 0xffffff);
  const rest = 256 - share, even = 0xff00ff;
  const low = (Math.imul(above & even, share) + Math.imul(below & even, rest)) >>> 8;
  const high = Math.imul((above >>> 8) & even, share) + Math.imul((below >>> 8) & even, rest);
  return (low & even) | (high & ~even);
}

/** Whether a point is inside a polygon [[x, y], ...]. */
export function inside(polygon, x, y) {
  let within = false;
  for (let current = 0, previous = polygon.length - 1; current < polygon.length; previous = current++) {
    const [ax, ay] = polygon[current], [bx, by] = polygon[previous];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) within = !within;
  }
  return within;
}
