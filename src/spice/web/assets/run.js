// The open run: the server's facts about it, columns with one number per image, edits. Views listen to "run" events.

import { say } from "./dom.js";

const KINDS = { group: Int32Array, person: Uint8Array, chance: Uint16Array, reliable: Uint8Array, outlier: Uint8Array, rank: Int32Array, x: Uint16Array, y: Uint16Array };
const EDITED = ["group", "person", "chance"]; // what an edit can change

/** `info` is what /api/state says; `group`, `chance`, ... hold one number per image. */
export const run = { info: null, path: [], byNumber: new Map() };

let lowered = null; // made on first use: for a million names it takes a while
/** The paths in lower case. */
export const loweredPaths = () => (lowered ??= run.path.map((path) => path.toLowerCase()));

export async function open() {
  await load(await ask("/api/state"), true);
  setInterval(poll, 2500);
  document.addEventListener("visibilitychange", poll);
}

/** Edit the run; resolves to whether it was done. */
export const edit = (operation) => change("/api/edit", { operation });
export const undo = () => run.info.undo && change("/api/undo", {});
export const redo = () => run.info.redo && change("/api/redo", {});

export const groupOf = (image) => run.byNumber.get(run.group[image]);
export const nameOf = (group) => (group ? group.name || `Group ${group.number}` : "No group");
/** The same, with the suggested name of a group without a name. */
export const guessedName = (group) => group.name || (group.suggested ? `${group.suggested}?` : nameOf(group));
export const shownGroups = () => run.info.groups.filter((group) => !group.aside);

let lastChange = Promise.resolve();

/** Change the run; resolves to whether it was done. Changes are made one after another, each on the state that the previous one left. */
export function change(address, content) {
  const done = lastChange.then(async () => {
    try {
      const info = await ask(address, { version: run.info.version, ...content });
      await load(info, info.result !== run.info.result);
      return true;
    } catch (error) {
      say(error.message, { bad: true });
      if (error.stale) await reload();
      return false;
    }
  });
  lastChange = done;
  return done;
}

export async function ask(address, content) {
  const request = content === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(content) };
  return (await send(address, request)).json();
}

/** The same, but shows an error as a message, and then resolves to nothing. */
export const attempt = (address, content) => ask(address, content).catch((error) => say(error.message, { bad: true }));

export async function send(address, request) {
  let answer;
  try {
    answer = await fetch(address, request);
  } catch {
    throw new Error("The server does not answer. Is spice open still running?");
  }
  if (answer.ok) return answer;
  const content = await answer.json().catch(() => ({}));
  throw Object.assign(new Error(content.error || `The server answered ${answer.status}.`), { stale: answer.status === 409 });
}

/** Look for changes made elsewhere. */
async function poll() {
  if (document.hidden || !run.info) return;
  try {
    const { version } = await ask("/api/version");
    if (version !== run.info.version) await (lastChange = lastChange.then(reload));
  } catch { /* reported when the user next does something */ }
}

async function reload() {
  const info = await ask("/api/state");
  if (info.version === run.info.version) return;
  await load(info, info.result !== run.info.result);
}

/** Take over a new state. `whole`: all columns, not only those that an edit can change. */
async function load(info, whole) {
  const names = (whole ? Object.keys(KINDS) : EDITED).filter((name) => info.map || (name !== "x" && name !== "y"));
  const columns = names.map(async (name) => [name, new KINDS[name](await (await send(`/api/column/${name}`)).arrayBuffer())]);
  if (whole) {
    run.path = await ask("/api/paths");
    lowered = null;
  }
  Object.assign(run, Object.fromEntries(await Promise.all(columns)));
  run.info = info;
  run.byNumber = new Map(info.groups.map((group) => [group.number, group]));
  dispatchEvent(new CustomEvent("run", { detail: { whole } }));
}
