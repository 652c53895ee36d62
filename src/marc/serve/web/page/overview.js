// Every memory of the server at a glance.

import { addressOf, ask, complain, hasKey } from "./api.js";
import { merged, sparkline } from "./charts.js";
import { count, fromTemplate, make, mark, percent, write } from "./elements.js";

const EVERY = 2000, CURVE_EVERY = 20_000, MOST = 200;

const VERDICTS = { helps: "helps", harms: "harms", "not shown": "not shown to help" };

/** A badge in words: who answers, or that nobody does. */
export function badge(element, status) {
  const word = status.state === "ready" ? status.mode : status.state;
  write(element, word);
  element.className = `badge ${word}`;
}

const example = () => `curl -X PUT ${new URL("v1/memories/first", document.baseURI).href} \\
  -H 'Content-Type: application/json' \\${hasKey() ? "\n  -H 'Authorization: Bearer KEY' \\" : ""}
  -d '{"classes": ["cat", "dog"], "spaces": {"eye": 2},
       "predictor": {"prototypes": [[1, 0], [0, 1]], "logit_scale": 30}}'`;

function card() {
  const parts = { badge: make("span"), name: make("bdi"), method: make("span", { class: "method" }), curve: make("div", { class: "curve" }),
    numbers: make("span", { class: "numbers" }), verdict: make("span", { class: "verdict" }), problem: make("span", { class: "alarm" }) };
  const link = make("a", {}, make("span", { class: "head" }, make("strong", {}, parts.name), parts.badge), parts.method, parts.curve, parts.numbers,
    parts.verdict, parts.problem);
  return { ...parts, link, item: make("li", {}, link), drawn: -Infinity, seq: -1 };
}

function show(parts, status) {
  badge(parts.badge, status);
  write(parts.name, status.name);
  parts.link.setAttribute("href", `#/${encodeURIComponent(status.name)}`);
  write(parts.method, status.method ? `${status.method} · ${count(status.n_classes)} classes` : "");
  write(parts.numbers, status.steps_total === undefined ? "" : `${count(status.steps_total)} steps · ${percent(status.disagreement_rate)} disagree · queue ${count(status.queue_length)}`);
  write(parts.verdict, status.state === "ready" ? VERDICTS[status.verdict] : "");
  parts.verdict.className = `verdict ${status.verdict === "not shown" ? "" : status.verdict}`;
  write(parts.problem, status.problem ?? (status.fell_back ? `fell back from ${status.fell_back.from}` : ""));
}

export function overview(main, signal) {
  const at = fromTemplate("overview", main);
  const cards = new Map();
  const search = at.search.querySelector("input");
  let statuses = [], alone = null;

  function render() {
    const text = search.value.trim().toLowerCase();
    const listed = statuses.filter((each) => each.name.toLowerCase().includes(text)).slice(0, MOST);
    for (const name of cards.keys()) if (!statuses.some((each) => each.name === name)) cards.delete(name);
    const items = listed.map((status) => {
      if (!cards.has(status.name)) cards.set(status.name, card());
      show(cards.get(status.name), status);
      return cards.get(status.name).item;
    });
    if (items.length !== at.list.children.length || items.some((item, place) => at.list.children[place] !== item)) at.list.replaceChildren(...items);
    at.none.hidden = statuses.length > 0;
    write(at.command, example());
    at.search.hidden = statuses.length < 9;
    const ready = statuses.filter((each) => each.state === "ready");
    const answering = ready.filter((each) => ["live", "canary"].includes(each.mode)).length;
    const wrong = statuses.filter((each) => each.state === "quarantined").length;
    write(at.summary, statuses.length === 0 ? "There is none yet." : `${count(statuses.length)} ${statuses.length === 1 ? "memory" : "memories"}, ${answering || "none"} of which ${answering > 1 ? "answer" : "answers"}${wrong ? `; ${wrong} cannot be opened` : ""}.`);
  }

  // one curve after the other, of what is shown and has changed
  async function curves() {
    for (const status of statuses) {
      const parts = cards.get(status.name), now = performance.now();
      if (!parts?.item.isConnected || status.state !== "ready" || parts.seq === status.seq || now - parts.drawn < CURVE_EVERY) continue;
      [parts.drawn, parts.seq] = [now, status.seq];
      const { points } = await ask(`${addressOf(status.name)}/history?points=60`, { signal });
      parts.curve.replaceChildren(sparkline(merged(points)[1]));
    }
  }

  async function look() {
    if (!document.hidden) {
      try {
        statuses = (await ask("v1/memories", { signal })).memories;
        render();
        if (alone) { document.getElementById("problem").hidden = true; alone = null; }
        await curves();
      } catch (error) {
        if (signal.aborted) return;
        if (error.status !== 404) complain(error);
        alone = error;
      }
    }
    if (!signal.aborted) setTimeout(look, alone?.status === 401 ? 10 * EVERY : EVERY);
  }

  search.addEventListener("input", render);
  look();
}
