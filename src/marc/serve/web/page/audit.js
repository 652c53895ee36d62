// Disagreements to label, one after the other, each with one key.

import { addressOf, ask, complain, picture } from "./api.js";
import { clock, count, make, mark, write } from "./elements.js";

const BATCH = 20;

export function auditOf(memory, at, signal, onJudgement, offersNeither) {
  let queue = [], done = [], skipped = [], began = false, busy = false, left = 0, forbidden = false;

  const button = (text, key, act, extra) => make("button", { type: "button", onclick: act, disabled: forbidden, ...extra }, make("kbd", {}, key), " ", text);

  async function fetchMore() {
    const { items, left: waiting } = await ask(`${addressOf(memory)}/audit?n=${BATCH}`, { signal });
    [queue, done, skipped, left, began] = [items, [], [], waiting, true];
    if (items[0] && !items[0].picture) await addNeighbours(items[0]);
  }

  // where there is no picture, what is remembered near it may help to find it; how that was answered is not shown
  async function addNeighbours(item) {
    const answer = await ask(`${addressOf(memory)}/steps/${encodeURIComponent(item.id)}`, { signal }).catch(() => null);
    item.near = (answer?.neighbours ?? []).filter((each) => each.id).slice(0, 5);
  }

  async function label(value, name) {
    const item = queue[0];
    const { judgement } = await ask(`${addressOf(memory)}/labels`, { method: "POST", signal, body: { labels: [{ id: item.id, label: value }] } });
    done.push({ ...item, labelled: name });
    queue.shift();
    onJudgement(judgement);
    await prepare();
  }

  async function prepare() {
    if (queue.length === 0 && skipped.length) [queue, skipped] = [skipped, []];
    if (queue[0] && !queue[0].picture && !queue[0].near) await addNeighbours(queue[0]);
  }

  const acts = {
    1: () => label(queue[0].choices[0].number, queue[0].choices[0].class),
    2: () => label(queue[0].choices[1].number, queue[0].choices[1].class),
    n: () => offersNeither() && label("neither", "neither"),
    s: async () => { skipped.push(queue.shift()); await prepare(); },
    u: () => done.length && queue.unshift(done.pop()),
    more: fetchMore,
  };

  async function act(name) {
    if (busy || (name !== "more" && !(queue.length || (name === "u" && done.length)))) return;
    busy = true;
    try {
      await acts[name]();
    } catch (error) {
      forbidden ||= error.status === 403;
      complain(error);
    }
    busy = false;
    if (!signal.aborted) render(true);
  }

  function card(item) {
    const near = item.near?.length ? make("p", { class: "small" }, "remembered near it: ", ...item.near.flatMap((each, place) => [place ? ", " : "", make("bdi", {}, each.id)])) : null;
    return make("div", { class: "card", tabindex: "-1", role: "group", "aria-label": `is ${item.id} ${item.choices.map((each) => each.class).join(" or ")}?` },
      item.picture ? picture(memory, item) : make("span", { class: "tile" }, make("bdi", {}, item.id)),
      make("div", {},
        make("p", { class: "small" }, make("bdi", {}, item.id), ` · ${clock(item.at)}`), near,
        item.labelled ? make("p", { class: "small" }, "Labelled ", make("b", {}, mark(item.labelled)), "; what is chosen now takes its place.") : null,
        make("p", { class: "choices" }, ...item.choices.map((each, place) => button(mark(each.class), place + 1, () => act(place + 1)))),
        make("p", { class: "choices others" }, offersNeither() ? button("neither", "n", () => act("n")) : null, button("skip", "s", () => act("s"), { disabled: false }),
          button("undo", "u", () => act("u"), { disabled: !done.length })),
        forbidden ? make("p", { class: "small" }, "The key in use may not label; the button Key … below takes another.") : null));
  }

  function render(focus) {
    const total = queue.length + done.length + skipped.length;
    write(at["audit-count"], began && total ? `${done.length} of ${total} labelled${left > total ? `, of ${count(left)} that wait` : ""}` : "");
    const more = (text) => make("p", {}, make("button", { type: "button", class: "main", onclick: () => act("more") }, text));
    let shown;
    if (!began) shown = [more("Begin to label")];
    else if (queue.length) shown = [card(queue[0])];
    else if (total) shown = [make("p", {}, `${done.length} labelled.`), more("Go on with more"), make("p", {}, button("undo", "u", () => act("u")))];
    else shown = [make("p", { class: "none" }, "No disagreement waits for a label."), more("Look again")];
    at.audit.replaceChildren(...shown);
    if (focus) at.audit.querySelector(".card, button")?.focus({ preventScroll: true });
  }

  // keys work where the cards have the focus, and nowhere else: one letter must not label by accident
  at.audit.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || !/^[12nsu]$/.test(event.key)) return;
    if (event.key !== "s" && event.key !== "u" && forbidden) return;
    event.preventDefault();
    act(event.key);
  });
  render(false);
}
