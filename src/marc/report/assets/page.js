"use strict";

// The explorer: the first of the scripts of the page, whose names the others use. Everything shown comes from the data block of the page; text is set as text, never
// as markup, so that a class name cannot do anything but be read.

const data = JSON.parse(document.getElementById("explorer-data").textContent);
const state = { query: null, weight: data.weight, listed: [] };
const several = (data.voices || data.spaces).length > 1;
const byId = (id) => document.getElementById(id);

// ---- the method: a score is a line in w, and the answer is the first of the best

function scoresAt(query, space, weight) {
  const slopes = query.slopes[space];
  return query.constant.map((constant, place) => constant + weight * slopes[place]);
}

function answerAt(query, space, weight) {
  const scores = scoresAt(query, space, weight);
  let best = 0;
  // classes are listed in ascending order, so equal scores go to the lowest class
  for (let place = 1; place < scores.length; place += 1) {
    if (scores[place] > scores[best]) best = place;
  }
  return query.classes[best];
}

// ---- small helpers

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function picture(row) {
  const name = data.ids[row];
  const source = data.pictures[row];
  if (source === undefined) return make("span", { class: "tile", title: name }, name);
  return make("img", { src: source, alt: name, width: 96, height: 96 });
}

const className = (number) => data.classes[number];
const weightText = (weight) => String(Number(weight.toPrecision(4)));
const plainZero = (text) => (Number(text) === 0 ? text.replace("-", "") : text);
const scoreText = (score) => plainZero(score.toFixed(2)).replace("-", "−");

function markOf(query) {
  if (query.kinds.includes("repaired")) return ["repaired", "repaired"];
  if (query.kinds.includes("broken")) return ["broken", "broken"];
  if (query.kinds.includes("changed")) return ["changed", "changed"];
  return query.base === query.adapted ? ["same", "unchanged"] : ["changed", "changed, still wrong"];
}

// ---- the list of queries

function matches(query, kind, text) {
  if (kind !== "all" && !query.kinds.includes(kind)) return false;
  const names = [query.truth, query.base, query.adapted].filter((number) => number !== null);
  return text === "" || names.some((number) => className(number).toLowerCase().includes(text));
}

function option(query) {
  const [mark, word] = markOf(query);
  const change = query.base === query.adapted
    ? [className(query.adapted)] : [className(query.base), " → ", make("bdi", {}, className(query.adapted))];
  const share = several ? `${Math.round(100 * query.disagreement)} % disagree · ` : "";
  return make("div", { class: "option", role: "option", id: `option-${query.row}`, "aria-selected": "false",
    "data-row": query.row },
    picture(query.row),
    make("span", {},
      make("span", { class: "line" }, make("span", { class: `mark ${mark}`, title: word }), ...change,
        make("span", { class: "hidden" }, ` (${word})`)),
      make("span", { class: "line" }, `${share}t = ${query.time}`)));
}

function renderList() {
  const kind = document.querySelector("input[name=kind]:checked").value;
  const text = byId("search").value.trim().toLowerCase();
  state.listed = data.queries.filter((query) => matches(query, kind, text));
  byId("list").replaceChildren(...state.listed.map(option));
  byId("found").textContent = `${state.listed.length} of ${data.queries.length} queries`;
  if (state.listed.length && !state.listed.includes(state.query)) select(state.listed[0]);
  else markSelected();
}

// What a filter shows; an address that names a query keeps naming the one that is shown.
function refilter() {
  renderList();
  if (state.query && window.location.hash.startsWith("#q-")) visit(state.query);
}

function markSelected() {
  const list = byId("list");
  list.removeAttribute("aria-activedescendant");
  for (const element of list.children) {
    const chosen = state.query !== null && element.dataset.row === String(state.query.row);
    element.setAttribute("aria-selected", String(chosen));
    if (!chosen) continue;
    list.setAttribute("aria-activedescendant", element.id);
    // within the list only: the page itself must not jump
    const above = element.offsetTop;
    const below = above + element.offsetHeight - list.clientHeight;
    if (below > list.scrollTop) list.scrollTop = below;
    if (above < list.scrollTop) list.scrollTop = above;
  }
}

function select(query) {
  state.query = query;
  markSelected();
  renderSubject();
  renderPanels();
}

// Select a query, and let the address of the page say which, so that it can be sent to others.
function visit(query) {
  select(query);
  window.history.replaceState(null, "", `#q-${query.row}`);
}

function moveBy(steps) {
  if (!state.listed.length) return;
  const place = state.listed.indexOf(state.query) + steps;
  visit(state.listed[Math.max(0, Math.min(place, state.listed.length - 1))]);
}

// ---- one query

function renderSubject() {
  const query = state.query;
  const [mark, word] = markOf(query);
  const tags = query.kinds.filter((kind) => ["low margin", "hubs"].includes(kind));
  const known = query.truth === null ? null : make("p", {}, "True class: ", make("b", {}, className(query.truth)));
  const when = data.voices ? "With it: " : `At w = ${weightText(data.weight)}: `;
  const held = data.voices ? "" : `${query.held} entries held`;
  const disagreement = `${Math.round(100 * query.disagreement)} % ${data.voices ? "" : "neighbour "}disagreement`;
  byId("subject").replaceChildren(
    picture(query.row),
    make("div", {},
      make("h3", {}, data.ids[query.row]),
      known,
      make("p", {}, "Without memory: ", make("b", {}, className(query.base)), `. ${when}`,
        make("b", {}, className(query.adapted)), ". ",
        make("span", { class: `mark ${mark}`, "aria-hidden": "true" }), word),
      make("p", { class: "tags" },
        [`position ${query.time} of ${data.length}`, held, several ? disagreement : "", ...tags]
          .filter(Boolean).join(" · "))));
}

function renderPanels() {
  if (data.voices) {
    renderVoices(state.query);
    return;
  }
  byId("panels").replaceChildren(...data.spaces.map((name, space) => panel(state.query, space, name)));
  const answers = data.spaces.map((name, space) => `${name}: ${className(answerAt(state.query, space, state.weight))}`);
  byId("said").textContent = `At w = ${weightText(state.weight)}, ${answers.join("; ")}`;
}

function panel(query, space, name) {
  const answer = answerAt(query, space, state.weight);
  return make("article", { class: "panel", "aria-label": `Read in ${name}`, "data-answer": answer },
    make("h3", {}, `Read in ${name}`),
    answerLine(query, answer),
    strip(query, space, answer),
    legend(),
    bars(query, space, answer),
    entries(query, space));
}

function answerLine(query, answer) {
  const line = make("p", { class: "answer" }, `at w = ${weightText(state.weight)}: `,
    make("b", {}, className(answer)));
  if (query.truth !== null) {
    const right = answer === query.truth;
    line.append(make("span", { class: right ? "right" : "wrong" }, right ? " ✓ right" : " ✗ wrong"));
  }
  return line;
}

// Where a weight lies on the slider, from 0 to 1.
function placeOf(weight) {
  const stops = data.stops;
  let next = stops.findIndex((stop) => stop >= weight);
  if (next < 0) return 1;
  if (next === 0) return 0;
  const before = stops[next - 1];
  return (next - 1 + (weight - before) / (stops[next] - before)) / (stops.length - 1);
}

function strip(query, space, answer) {
  const pieces = query.segments[space];
  const parts = pieces.map(([start, number], index) => {
    const end = index + 1 < pieces.length ? placeOf(pieces[index + 1][0]) : 1;
    const width = 100 * (end - placeOf(start));
    const title = `${className(number)} from w = ${weightText(start)}`;
    const part = make("span", { class: number === answer ? "now" : "", title }, width > 9 ? className(number) : "");
    part.style.width = `${width}%`;
    if (width < 9) part.style.padding = "0";
    return part;
  });
  const marker = make("i", {});
  marker.style.left = `calc(${100 * placeOf(state.weight)}% - 1px)`;
  const words = pieces.map(([start, number]) => `${className(number)} from w = ${weightText(start)}`).join("; ");
  return make("div", {},
    make("div", { class: "strip", "aria-hidden": "true" }, ...parts, marker),
    make("span", { class: "hidden" }, `Answers by weight: ${words}.`));
}

function legend() {
  return make("p", { class: "legend" }, "above: the answer by w, 0 to ", weightText(data.stops[data.stops.length - 1]),
    "; below: ", make("span", { class: "swatch" }), "base ", make("span", { class: "swatch evidence" }), "w × L");
}

function leading(query, scores) {
  const places = scores.map((_, place) => place);
  places.sort((a, b) => scores[b] - scores[a] || a - b);
  const wanted = new Set(places.slice(0, 5));
  for (const number of [query.base, query.truth]) {
    if (number !== null) wanted.add(query.classes.indexOf(number));
  }
  return places.filter((place) => wanted.has(place));
}

function bars(query, space, answer) {
  const scores = scoresAt(query, space, state.weight);
  const top = Math.max(...scores) - query.floor || 1;
  const rows = leading(query, scores).map((place) => {
    const number = query.classes[place];
    const evidence = state.weight * query.slopes[space][place];
    const base = query.constant[place];
    const lengths = [base - query.floor, evidence].map((value) => {
      const part = make("span", {});
      part.style.width = `${Math.max(0, 100 * value / top)}%`;
      return part;
    });
    const isTrue = number === query.truth;
    const title = className(number) + (isTrue ? ", the true class" : "");
    return make("tr", { class: number === answer ? "wins" : "" },
      make("th", { scope: "row", title, "aria-label": title }, (isTrue ? "✓ " : "") + className(number)),
      make("td", { class: "bar", "aria-hidden": "true" }, make("div", {}, ...lengths)),
      ...[base, evidence, scores[place]].map((value) => make("td", { class: "number" }, scoreText(value))));
  });
  const heads = ["base", "w × L", "sum"].map((text) => make("td", { class: "number" }, text));
  return make("table", { class: "bars" },
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "class"), make("td", {}), ...heads)),
    make("tbody", {}, ...rows));
}

function entries(query, space) {
  const found = query.entries[space];
  if (!found.length) return make("p", { class: "none" }, "The memory was still empty.");
  return make("ol", { class: "entries", "aria-label": "Nearest stored entries, nearest first" }, ...found.map(entry));
}

function entry(found) {
  const wrong = found.truth !== null && found.truth !== found.label;
  const truth = found.truth === null ? null : make("span", { class: wrong ? "truth wrong" : "truth" },
    wrong ? `✗ is ${className(found.truth)}` : "✓ is so");
  return make("li", { class: "entry" },
    picture(found.row),
    make("span", {},
      make("span", { class: "label", title: `pseudo-label: ${className(found.label)}` }, className(found.label)),
      truth,
      make("span", { class: "details" }, `similarity ${plainZero(found.similarity.toFixed(2))}`),
      make("span", { class: "details" }, `vote ${found.vote.toFixed(3)}`),
      make("span", { class: "details" }, `stored t = ${found.time}${found.hub ? " · hub" : ""}`)));
}

// ---- the weight

function setWeight(weight) {
  state.weight = weight;
  const slider = byId("slider");
  slider.value = Math.round(placeOf(weight) * (data.stops.length - 1));
  slider.setAttribute("aria-valuetext", `w = ${weightText(weight)}`);
  if (document.activeElement !== byId("weight")) byId("weight").value = String(weight);
  if (state.query !== null) renderPanels();
}
