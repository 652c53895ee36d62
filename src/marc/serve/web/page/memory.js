// One memory: who answers, how it does, and what happens in it.

import { addressOf, ask, complain, follow, request } from "./api.js";
import { auditOf } from "./audit.js";
import { chart, merged } from "./charts.js";
import { atMost, bar, count, day, decimal, fromTemplate, make, percent, points, write } from "./elements.js";
import { fillOf } from "./fill.js";
import { modesOf } from "./modes.js";
import { badge } from "./overview.js";
import { samplesOf } from "./samples.js";

const EVERY = 5000; // milliseconds between two looks at what no event brings
const STATES = { live: "live", reconnecting: "reconnecting …", stopped: "stopped" };

function fact(name) {
  const value = make("strong"), note = make("span");
  return { item: make("div", {}, make("dt", {}, name), make("dd", {}, value, note)), set(text, words) { write(value, text); write(note, words); } };
}

function drawGain(place, gain) {
  if (!gain) return place.replaceChildren(make("p", { class: "none" }, "Unknown until a disagreement is labelled."));
  const most = 1.1 * Math.max(Math.abs(gain.low), Math.abs(gain.high), 1e-4), at = (value) => `${50 + (50 * value) / most}%`;
  const range = make("i", { class: "range" }), dot = make("i", { class: "dot" });
  [range.style.left, range.style.right, dot.style.left] = [at(gain.low), `${50 - (50 * gain.high) / most}%`, at(gain.estimate)];
  place.replaceChildren(make("div", { class: "gain", "aria-hidden": "true" }, make("i", { class: "zero" }), range, dot),
    make("p", { class: "ends", "aria-hidden": "true" }, make("span", {}, points(-most)), make("span", {}, "0"), make("span", {}, points(most))),
    make("p", {}, make("b", {}, `${points(gain.estimate)} points`), ` of right answers; between ${points(gain.low)} and ${points(gain.high)} with ${Math.round(100 * gain.confidence)} % confidence, however often it is looked at.`));
}

function listSettings(info) {
  const { name, ...settings } = info.method;
  const rows = { method: name, ...settings, spaces: Object.entries(info.spaces).map(([space, dim]) => `${space} (${dim})`).join(", ") || "none",
    "predictor's features": info.dim, durability: info.durability, ...info.limits, pictures: info.takes_pictures ? "taken" : "not taken: features only" };
  return Object.entries(rows).map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, make("bdi", {}, name)), make("td", {}, make("bdi", {}, value === null ? "none" : String(value)))));
}

export function memory(main, name, signal) {
  const at = fromTemplate("memory", main), path = addressOf(name), charts = [];
  at.name.append(make("bdi", {}, name));
  const facts = ["Steps", "Disagreement", "Gain", "Remembered"].map(fact);
  at.facts.append(...facts.map((each) => each.item));
  const curve = (place, settings) => { const drawn = chart(at[place], settings); charts.push(drawn); return drawn; };
  const span = (_, low, high) => [Math.min(0, low), Math.max(high, 0.01)];
  const disagreement = curve("chart-disagreement", { about: "rate of disagreement over all steps", x: "step", format: percent, range: span, series: [["disagreement", "second", undefined, true]] });
  const weight = curve("chart-weight", { about: "mean weight over all steps", x: "step", format: decimal, range: span, series: [["weight", "first", undefined, true]] });
  const evidence = curve("chart-judge", { about: "log10 of the evidence after each decided label", x: "label", format: decimal, range: (_, low, high) => [Math.max(-3, Math.min(low, -0.5)), high + 0.3],
    series: [["helps", "good"], ["harms", "bad", [8, 3]], ["enough", "muted", [2, 4]]] });
  const fill = fillOf(at, charts), samples = samplesOf(name, at);
  let status = {}, info = null, fraction = null, seen = null, speed = [], problem = "", looking = false;
  const modes = modesOf(name, at, signal, () => look(true));
  auditOf(name, at, signal, judged, () => !info?.classes.includes("neither"));

  const header = atMost(100, () => {
    badge(at.mode, status);
    modes.set(status.mode, fraction);
    const first = speed[0], last = speed.at(-1), rate = speed.length > 1 ? (last[1] - first[1]) / (last[0] - first[0]) : null;
    facts[0].set(count(status.seq), `${rate === null ? "" : `${decimal(rate)} a second · `}queue ${count(status.queue_length ?? 0)}`);
    facts[1].set(percent(status.disagreement_rate), `${count(status.disagreements_total)} of ${count(status.steps_total)} answers differ`);
    const fell = status.fell_back, words = status.state && status.state !== "ready" ? `This memory is ${status.state}${status.problem ? `: ${status.problem}. The others go on; a snapshot can be restored by POST ${path}/restore, and marc serve --check says what is damaged` : ""}.`
      : fell ? `Fell back from ${fell.from} to shadow at step ${count(fell.seq)}: ${fell.why}.` : problem;
    at.banner.hidden = !words;
    write(at.banner, words);
  });

  function judged(now) {
    modes.judge(now);
    write(at.sentence, `${now.sentence[0].toUpperCase()}${now.sentence.slice(1)}.`);
    at.sentence.className = `lead verdict ${now.verdict === "not shown" ? "" : now.verdict}`;
    const { won, lost, neither } = now.labelled, total = won + lost + neither;
    const needed = now.labels_needed ? `; about ${count(now.labels_needed)} more would decide` : "";
    facts[2].set(now.gain ? `${points(now.gain.estimate)} points` : "–", total ? `${count(won)} won, ${count(lost)} lost, ${count(neither)} neither${needed}` : "unknown without labels");
    const threshold = -Math.log10(now.alpha);
    at["chart-judge"].classList.toggle("undecided", now.curve.length < 2);
    if (now.curve.length > 1) evidence.set([0, 1, 2].map((column) => now.curve.map((each) => each[column])).concat([now.curve.map(() => threshold)]));
    drawGain(at.gain, now.gain);
  }

  function described(now) {
    [info, fraction] = [now, now.fraction];
    status = { ...status, state: now.state, mode: now.mode, seq: now.seq, fell_back: now.fell_back, ...(status.steps_total === undefined && { steps_total: now.shadow.steps, disagreements_total: now.shadow.disagreements, disagreement_rate: now.shadow.disagreement_rate }) };
    write(at.made, ` · ${now.method.name} · made ${day(now.created)}`);
    facts[3].set(count(now.held), now.capacity ? `${percent(now.held / (now.capacity * now.n_classes))} of ${count(now.capacity * now.n_classes)} places` : `images of ${count(now.n_classes)} classes`);
    fill(now);
    const spaces = Object.entries(now.space_weights ?? {}), most = Math.max(...spaces.map((each) => each[1]), 1e-9);
    at["space-weights"].replaceChildren(spaces.length < 2 ? "" : make("ul", { class: "fill" }, ...spaces.map(([space, value]) => make("li", {}, make("bdi", { class: "name" }, space), bar(value / most), make("span", { class: "number" }, decimal(value))))));
    write(at["snapshot-text"], `Every step is written before it is answered. ${now.snapshot ? `The last snapshot is of step ${count(now.snapshot.seq)}, ${day(now.snapshot.at)}.` : "No snapshot was written yet."}`);
    if (!at.settings.childElementCount) at.settings.append(...listSettings(now));
    header();
  }

  /** Ask for what no event brings, if anything can have changed. */
  async function look(always = false) {
    if (signal.aborted || looking || (!always && (document.hidden || seen === status.seq))) return;
    looking = true;
    try {
      const now = await ask(path, { signal });
      main.classList.toggle("closed", now.state === "quarantined");
      if (now.state === "quarantined") {
        status = { ...status, ...now };
        header();
        return;
      }
      const [history, judgement] = await Promise.all(["/history?points=300", "/judgement"].map((what) => ask(path + what, { signal })));
      described(now);
      judged(judgement);
      seen = now.seq;
      const [steps, rates, weights] = merged(history.points);
      if (steps.length) { disagreement.set([steps, rates]); weight.set([steps, weights]); }
    } catch (error) {
      if (!signal.aborted && (status.state === "ready" || !status.state)) complain(error);
    } finally {
      looking = false;
    }
  }

  const on = {
    step: (sample) => samples.add(sample),
    judgement: judged,
    status(now) {
      const turned = status.state && status.state !== now.state;
      status = { ...status, ...now };
      speed = [...speed, [performance.now() / 1000, now.seq ?? 0]].slice(-6);
      if (turned) look(true);
    },
    mode(now) {
      status = { ...status, mode: now.mode, fell_back: now.from ? now : null };
      fraction = now.fraction ?? fraction;
      look(true);
    },
    snapshot() { problem = ""; look(true); },
    problem(now) { problem = now.problem; },
    missed: () => reset(),
  };

  const reset = () => ask(`${path}/samples?n=60`, { signal }).then((body) => samples.reset(body.items)).catch(() => null);
  const state = (now, again) => {
    at.state.className = `state ${now}`;
    write(at.state, STATES[now]);
    if (now === "live") { reset(); if (again) { document.getElementById("problem").hidden = true; look(true); } }
  };

  at.snapshot.addEventListener("click", async () => {
    at.snapshot.disabled = true;
    try {
      const { file } = await ask(`${path}/snapshot`, { method: "POST", signal });
      const response = await request(`${path}/snapshots/${encodeURIComponent(file)}`, { signal });
      const address = URL.createObjectURL(await response.blob());
      make("a", { href: address, download: `${name}-${file}` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 60_000);
      at.snapshot.disabled = false;
    } catch (error) {
      at.snapshot.disabled = error.status === 403;
      complain(error);
    }
    look(true);
  });

  const timer = setInterval(look, EVERY, false);
  signal.addEventListener("abort", () => { clearInterval(timer); charts.forEach((each) => each.close()); });
  look(true);
  follow(`${path}/events`, signal, (event, data) => { on[event]?.(data); header(); }, state);
}
