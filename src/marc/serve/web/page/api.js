// Requests, the key, what a server refuses, the stream of events, and pictures.

import { make } from "./elements.js";

const KEY = "marc-key";
let key = sessionStorage.getItem(KEY);
let asked = null, declined = false;

export class Refusal extends Error {
  constructor(status, body) {
    super([body.problem || body.title || `the server answers ${status}`, body.got && `got: ${body.got}`,
      body.allowed && `allowed: ${body.allowed}`, body.hint && `try: ${body.hint}`].filter(Boolean).join(" · "));
    this.status = status;
  }
}

export const hasKey = () => key !== null;

/** Ask for a key, once however many requests wait for it; whether there is a new one. */
export function askForKey(why) {
  asked ??= new Promise((settle) => {
    const dialog = document.getElementById("key"), field = dialog.querySelector("input");
    document.getElementById("key-why").textContent = why;
    dialog.returnValue = "";
    dialog.addEventListener("close", () => {
      declined = dialog.returnValue !== "use";
      if (!declined) {
        key = field.value.trim() || null;
        if (key) sessionStorage.setItem(KEY, key); else sessionStorage.removeItem(KEY);
      }
      field.value = "";
      asked = null;
      settle(!declined);
    }, { once: true });
    dialog.showModal();
    field.focus();
  });
  return asked;
}

/** A response that is good; anything else is thrown in words. */
export async function request(path, { method = "GET", body, signal } = {}) {
  for (;;) {
    const used = key;
    const headers = { ...(used && { Authorization: `Bearer ${used}` }), ...(body && { "Content-Type": "application/json" }) };
    const response = await fetch(path, { method, headers, signal, cache: "no-store", body: body && JSON.stringify(body) })
      .catch((error) => {
        if (error.name === "AbortError") throw error;
        throw new Refusal(0, { problem: "the server does not answer", hint: "look whether marc serve still runs; this page tries again by itself" });
      });
    if (response.ok) return response;
    const refusal = new Refusal(response.status, await response.json().catch(() => ({})));
    if (response.status === 401 && used !== key) continue; // another request brought a new one
    if (response.status === 401 && !declined && (await askForKey(used ? "The key is not known here, or was taken back." : "Whoever runs it can give you one: marc serve --help says how keys are made."))) continue;
    throw refusal;
  }
}

export const ask = async (path, options) => (await request(path, options)).json();
export const addressOf = (name) => `v1/memories/${encodeURIComponent(name)}`;

/** Say in words what was refused. */
export function complain(error) {
  if (error.name === "AbortError") return;
  const box = document.getElementById("problem");
  box.firstElementChild.textContent = error instanceof Refusal ? error.message : `this page failed: ${error.message}`;
  box.hidden = false;
  if (!(error instanceof Refusal)) console.error(error);
}

const QUIET = 30_000; // milliseconds; a status comes every second, so after these the connection is dead
const LONGEST = 4_000_000; // characters of one event

async function readEvents(body, heard, onEvent) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    text += value;
    const blocks = text.split(/\r\n\r\n|\n\n|\r\r/);
    text = blocks.pop();
    if (text.length > LONGEST) throw new Refusal(0, { problem: "an event is too long" });
    for (const block of blocks) {
      let event = "message", data = "";
      for (const line of block.split(/\r\n|\n|\r/)) {
        if (line.startsWith("event:")) event = line.slice(6).trim();
        if (line.startsWith("data:")) data += line.slice(5);
      }
      if (data) onEvent(event, JSON.parse(data));
    }
  }
}

/** Follow events until `signal` is aborted; `onState` gets "live", "reconnecting" or "stopped". */
export async function follow(path, signal, onEvent, onState) {
  let wait = 1, again = false;
  while (!signal.aborted) {
    const connection = new AbortController();
    const stop = () => connection.abort();
    signal.addEventListener("abort", stop);
    let quiet = setTimeout(stop, QUIET);
    const heard = () => { clearTimeout(quiet); quiet = setTimeout(stop, QUIET); wait = 1; };
    try {
      const response = await request(path, { signal: connection.signal });
      onState("live", again);
      again = true;
      await readEvents(response.body, heard, onEvent);
    } catch (error) {
      if (error.status > 0) complain(error);
      if ([401, 403, 404].includes(error.status)) {
        onState("stopped");
        break;
      }
    } finally {
      clearTimeout(quiet);
      stop();
      signal.removeEventListener("abort", stop);
    }
    if (signal.aborted) return;
    onState("reconnecting");
    await new Promise((go) => setTimeout(go, 1000 * wait * (0.5 + Math.random() / 2)));
    wait = Math.min(30, 2 * wait);
  }
}

const MOST_PICTURES = 300;
const pictures = new Map();

/** A picture on a canvas: it comes with the key, and needs no address of its own. */
export function picture(memory, sample, kind = "") {
  if (!sample.picture || !sample.seq) return make("span", { class: `tile ${kind}`, title: sample.id }, make("bdi", {}, sample.id ?? "gone"));
  const canvas = make("canvas", { class: `tile ${kind}`, role: "img", "aria-label": `picture of ${sample.id}`, title: sample.id });
  const path = `${addressOf(memory)}/pictures/${sample.seq}`;
  const known = `${path} ${sample.id}`; // a memory may be made again, and count from 1 again
  const bitmap = pictures.get(known) ?? request(path).then((response) => response.blob()).then(createImageBitmap).catch(() => null);
  pictures.delete(known);
  pictures.set(known, bitmap);
  if (pictures.size > MOST_PICTURES) pictures.delete(pictures.keys().next().value);
  bitmap.then((image) => {
    if (image === null) { pictures.delete(known); canvas.classList.add("gone"); return; }
    [canvas.width, canvas.height] = [image.width, image.height];
    canvas.getContext("2d").drawImage(image, 0, 0);
  });
  return canvas;
}
