// Training that makes another result: start it, watch it, cancel it.

import { button, capitalized, element, say } from "./dom.js";
import { ask, attempt, run } from "./run.js";

let watched = false; // whether this page has seen it running

/** The task, progress and time left of work in the background, and a button to cancel it. */
export function drawProgress(found, cancel) {
  const task = found.canceling ? "Canceling" : capitalized(found.task || "starting");
  return [
    element("p", { role: "status" }, `${task} … `, found.left && !found.canceling ? element("span", { class: "note" }, `${found.left} left in this step`) : ""),
    element("progress", { max: "1", value: found.progress, "aria-label": task }),
    element("div", { class: "buttons" }, button("Cancel", cancel, { disabled: found.canceling })),
  ];
}

/**
 * Fill `place` with the progress of a training, or if there is none, with what `start(begin)` returns. `propose(proposal, send)`, if given,
 * draws the result of joint training.
 */
export async function drawTraining(place, start, propose) {
  clearTimeout(place.again); // one request at a time, however often the view is drawn
  const found = await ask("/api/training");
  if (!place.isConnected) return;
  const again = () => drawTraining(place, start, propose);
  const send = async (what, content = {}) => {
    await attempt(`/api/training/${what}`, { version: run.info.version, ...content });
    again();
  };
  if (found.running) {
    watched = true;
    const cancel = () => { watched = false; place.querySelector("button").disabled = true; send("cancel"); };
    place.replaceChildren(element("div", { class: "panel training" }, ...drawProgress(found, cancel),
      element("p", { class: "note" }, "You can use the other views meanwhile. If the server stops, nothing is lost: start again to resume.")));
    clearTimeout(place.again);
    place.again = setTimeout(again, 500);
    return;
  }
  if (watched && !found.error && !found.proposal) say("Training is finished. The new result appears in a moment.");
  watched = false;
  if (found.proposal && propose) return place.replaceChildren(...propose(found.proposal, send));
  place.replaceChildren(...(found.error ? [element("p", { class: "warning" }, found.error)] : []), ...start((groups) => send("start", { groups })));
}
