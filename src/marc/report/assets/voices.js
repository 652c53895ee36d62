// Who said what: a query of any method. A score is the sum of what each voice says, at the weights
// of that moment.

// What a voice adds to a class, above what it adds to the class that it speaks for least.
const addedBy = (query, voice, place) =>
  query.weights[voice] * (query.evidence[voice][place] - query.evidence[voice][query.classes.length]);

function voicesOf(query) {
  const voices = data.voices.map((_, voice) => voice);
  return voices.sort((a, b) => Math.abs(query.weights[b]) - Math.abs(query.weights[a]) || a - b);
}

function renderVoices(query) {
  const whole = query.weights.reduce((sum, weight) => sum + Math.abs(weight), 0);
  const share = (voice) => (whole ? Math.abs(query.weights[voice]) / whole : 0);
  const voices = voicesOf(query);
  const quiet = voices.filter((voice) => share(voice) < 0.01);
  const words = quiet.map((voice) => data.voices[voice].name).join(", ");
  byId("panels").classList.add("voices");
  byId("panels").replaceChildren(
    make("article", { class: "panel sum", "aria-label": "The sum", "data-answer": query.adapted },
      make("h3", {}, "The sum"), voicesLegend(), sums(query, voices)),
    ...voices.filter((voice) => share(voice) >= 0.01).map((voice) => voicePanel(query, voice, share(voice))),
    make("p", { class: "quiet" }, quiet.length ? `With less than 1 % of the weight: ${words}.` : ""));
  byId("said").textContent = `The answer is ${className(query.adapted)}`;
}

// The colour and the mark of a voice, the same in every figure.
function glyphOf({ color, glyph }) {
  const mark = make("span", { class: "glyph", "aria-hidden": "true", "data-glyph": glyph });
  mark.style.color = color;
  return mark;
}

function voicesLegend() {
  return make("p", { class: "legend" }, make("span", { class: "swatch" }), "base, then what each voice adds: ",
    ...data.voices.map((voice) => make("span", { class: "voice" }, glyphOf(voice), voice.name, " ")));
}

function classRow(query, number, parts, values, wins) {
  const isTrue = number === query.truth;
  const title = className(number) + (isTrue ? ", the true class" : "");
  return make("tr", { class: wins ? "wins" : "" },
    make("th", { scope: "row", title, "aria-label": title }, (isTrue ? "✓ " : "") + className(number)),
    make("td", { class: "bar", "aria-hidden": "true" }, make("div", {}, ...parts)),
    ...values.map((value) => make("td", { class: "number" }, scoreText(value))));
}

function classTable(heads, rows) {
  const cells = heads.map((text) => make("td", { class: "number" }, text));
  return make("table", { class: "bars" },
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "class"), make("td", {}), ...cells)),
    make("tbody", {}, ...rows));
}

function part(length, color, title) {
  const element = make("span", { title });
  element.style.width = `${Math.max(0, length)}%`;
  if (color) element.style.background = color;
  return element;
}

function sums(query, voices) {
  const floor = query.constant[query.classes.length];
  const memory = query.classes.map((_, place) =>
    query.weights.reduce((sum, weight, voice) => sum + weight * query.evidence[voice][place], 0));
  const above = query.classes.map((_, place) =>
    query.constant[place] - floor + voices.reduce((sum, voice) => sum + addedBy(query, voice, place), 0));
  const top = Math.max(...above) || 1;
  const total = memory.map((value, place) => query.constant[place] + value);
  const rows = leading(query, total).map((place) => {
    const parts = voices.map((voice) => {
      const { name, color } = data.voices[voice];
      const added = addedBy(query, voice, place);
      return part(100 * added / top, color, `${name}: ${scoreText(added)}`);
    });
    const base = part(100 * (query.constant[place] - floor) / top, null, "base");
    const values = [query.constant[place], memory[place], total[place]];
    return classRow(query, query.classes[place], [base, ...parts], values, query.classes[place] === query.adapted);
  });
  return classTable(["base", "memory", "sum"], rows);
}

function voicePanel(query, voice, share) {
  const { name, color } = data.voices[voice];
  const weight = query.weights[voice];
  const evidence = query.evidence[voice];
  const sign = weight < 0 ? -1 : 1;
  const places = query.classes.map((_, place) => place);
  places.sort((a, b) => sign * (evidence[b] - evidence[a]) || a - b);
  const height = (place) => sign * (evidence[place] - evidence[query.classes.length]);
  const top = height(places[0]) || 1;
  const rows = places.slice(0, 5).map((place) =>
    classRow(query, query.classes[place], [part(100 * height(place) / top, color, null)], [evidence[place]],
      query.classes[place] === query.adapted));
  const article = make("article", { class: "panel", "aria-label": name },
    make("h3", {}, glyphOf(data.voices[voice]), name),
    make("p", { class: "answer" }, `weight ${plainZero(weight.toFixed(3))} · ${Math.round(100 * share)} %`),
    height(places[0]) > 0 ? classTable(["evidence"], rows) : make("p", { class: "none" }, "It prefers no class yet."),
    earlier(query.entries[voice]));
  article.style.setProperty("--accent", color);
  return article;
}

function earlier(found) {
  if (!found.length) return null;
  const [answers, times, truths] = data.images;
  return make("ol", { class: "entries", "aria-label": "Nearest earlier images, nearest first" },
    ...found.map(({ row, similarity }) => {
      const wrong = truths && truths[row] !== answers[row];
      const words = `${className(answers[row])}${wrong ? `, is ${className(truths[row])}` : ""}; t = ${times[row]}`;
      return make("li", { class: "entry", title: words },
        picture(row),
        make("span", {},
          make("span", { class: wrong ? "label wrong" : "label" }, (wrong ? "✗ " : "") + className(answers[row])),
          make("span", { class: "details" }, plainZero(similarity.toFixed(2)))));
    }));
}
