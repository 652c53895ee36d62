// The samples of a stream, newest first, and one of them with what is remembered near it.

import { picture } from "./api.js";
import { atMost, bar, clock, count, decimal, make, mark, percent } from "./elements.js";

const MOST = 60;
const READABLE = 2000; // milliseconds for which the one that is shown stays

const sure = (value) => (value === null || value === undefined ? null : make("small", {}, ` ${percent(value)}`));

function answers(sample, write = () => null) {
  const memory = make("b", {}, mark(sample.class), write(sample.confidence));
  if (!sample.disagree) return [memory];
  return [make("span", { class: "before" }, mark(sample.base_class), write(sample.base_confidence)), " → ", memory];
}

function neighbour(memory, near) {
  return make("li", { class: "entry" }, picture(memory, near), make("span", { class: "label" }, mark(near.class)),
    bar(near.similarity, "similarity"),
    make("span", { class: "details" }, decimal(near.similarity)),
    near.vote === null ? null : make("span", { class: "details" }, `vote ${decimal(near.vote)}`),
    make("span", { class: "details" }, `${count(near.age)} ago`));
}

export function samplesOf(memory, at) {
  let all = [], waiting = [], chosen = null, paused = false, shown = null, since = -Infinity;
  const rows = new Map();

  function row(sample) {
    const words = sample.disagree ? "changed" : "same";
    return make("li", { id: `sample-${sample.seq}`, class: words },
      make("button", { type: "button", onclick: () => choose(sample) }, picture(memory, sample),
        make("span", {}, make("span", { class: "line" }, make("span", { class: `mark-${words}`, "aria-hidden": "true" }), make("span", { class: "hidden" }, sample.disagree ? "changed: " : "the same: "), ...answers(sample)),
          make("span", { class: "line" }, sample.confidence === null ? "" : `${percent(sample.confidence)} · `, make("bdi", {}, sample.id), ` · ${sample.answered_by}`))));
  }

  function detail(sample) {
    const spaces = Object.entries(sample.neighbours).filter(([, near]) => near.length);
    const stored = sample.admitted ? (sample.evicted ? [", and is remembered in place of ", make("bdi", {}, sample.evicted)] : [", and is remembered"]) : [", and is not remembered"];
    at.sample.replaceChildren(
      make("div", { class: "subject" }, picture(memory, sample), make("div", {},
        make("h3", {}, ...answers(sample, sure)),
        make("p", {}, sample.disagree ? "The two answers differ; " : "Both answer the same; ", make("b", {}, `the ${sample.answered_by} answered`), "."),
        make("p", { class: "small" }, make("bdi", {}, sample.id), ` · step ${count(sample.seq)} · ${clock(sample.at)} · weight ${decimal(sample.weight)}`, ...stored, "."))),
      make("div", { class: "panels" }, ...spaces.map(([space, near], place) => make("div", { class: `panel look-${place % 6}` },
        make("h4", {}, "Nearest in “", make("bdi", {}, space), "” ", make("small", {}, `similarity, ${near[0].vote === null ? "" : "vote, "}steps since`)), make("ol", { class: "entries" }, ...near.map((each) => neighbour(memory, each)))))),
      spaces.length ? "" : make("p", { class: "none" }, "No neighbours were noted for this one."));
  }

  function choose(sample) {
    chosen = sample;
    pause(true);
    render();
  }

  function pause(on) {
    paused = on;
    chosen = on ? chosen ?? shown : null;
    at.pause.textContent = on ? "Go on" : "Pause";
    at.pause.setAttribute("aria-pressed", String(on));
  }

  function render() {
    if (!paused) {
      all = [...waiting, ...all].slice(0, MOST);
      waiting = [];
    }
    const listed = at.only.checked ? all.filter((sample) => sample.disagree) : all;
    const kept = new Set(all);
    for (const sample of rows.keys()) if (!kept.has(sample)) rows.delete(sample);
    const items = listed.map((sample) => rows.get(sample) ?? rows.set(sample, row(sample)).get(sample));
    const had = at.samples.contains(document.activeElement) ? document.activeElement : null;
    for (const item of [...at.samples.children]) if (!items.includes(item)) item.remove();
    items.forEach((item, place) => { if (at.samples.children[place] !== item) at.samples.insertBefore(item, at.samples.children[place] ?? null); });
    had?.focus({ preventScroll: true });
    const newest = chosen && listed.includes(chosen) ? chosen : listed[0];
    if (paused || !listed.includes(shown) || performance.now() - since >= READABLE) show(newest);
    for (const [sample, item] of rows) item.firstElementChild.setAttribute("aria-pressed", String(sample === shown));
  }

  function show(sample) {
    if (sample && sample === shown) return;
    [shown, since] = [sample, performance.now()];
    if (sample) detail(sample);
    else at.sample.replaceChildren(make("p", { class: "none" }, all.length ? "None of the last samples was changed." : "Nothing was asked yet."));
  }

  const soon = atMost(100, render);
  at.pause.addEventListener("click", () => { pause(!paused); render(); });
  at.only.addEventListener("change", render);
  return {
    add(sample) {
      waiting = [sample, ...waiting].slice(0, MOST);
      soon();
    },
    /** What the server has: after a start, or when events were missed. What came since then stays. */
    reset(samples) {
      if (paused) return;
      const known = new Map(all.map((each) => [`${each.seq} ${each.id}`, each]));
      const newer = [...waiting, ...all].filter((each) => each.seq > (samples[0]?.seq ?? 0));
      all = [...newer, ...samples.map((each) => known.get(`${each.seq} ${each.id}`) ?? each)].slice(0, MOST);
      waiting = [];
      soon();
    },
  };
}
