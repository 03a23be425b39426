// A training that makes another result: started from the page, watched, canceled. The page shows its result when it is there.

import { button, element, say } from "./dom.js";
import { ask, run } from "./run.js";

let watched = false; // whether this page has seen it running

/** Fill `place` with the way to start (what `start(begin)` returns), or with how far a training is. */
export async function drawTraining(place, start) {
  const found = await ask("/api/training");
  if (!place.isConnected) return;
  const again = () => drawTraining(place, start);
  const send = async (what, content = {}) => {
    try {
      await ask(`/api/training/${what}`, { version: run.info.version, ...content });
    } catch (error) {
      say(error.message, { bad: true });
    }
    again();
  };
  if (found.running) {
    watched = true;
    place.replaceChildren(
      element("p", { role: "status" }, found.task ? `${found.task[0].toUpperCase()}${found.task.slice(1)} …` : "Starting …"),
      element("progress", { max: "1", value: found.progress, "aria-label": found.task || "Training" }),
      element("p", { class: "note" }, "You can go on working on the other views."),
      element("div", { class: "buttons" }, button("Cancel", () => { watched = false; send("cancel"); })));
    setTimeout(again, 500);
    return;
  }
  if (watched && !found.error) say("Done. The page shows the new result in a moment.");
  watched = false;
  place.replaceChildren(...(found.error ? [element("p", { class: "warning" }, found.error)] : []), ...start((groups) => send("start", { groups })));
}
