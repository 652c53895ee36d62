// The map: the images of the stream as each space groups them; one of them is marked in every map.

const map = data.map;
const marks = { place: null, rings: [], points: [], only: null };
const KINDS = ["the same answer", map && map.truth ? "changed, still wrong" : "changed", "repaired", "broken"];
const SHAPES = [  // of a point by kind, around 0
  "M-.8 0a.8 .8 0 1 0 1.6 0a.8 .8 0 1 0 -1.6 0Z",
  "M0 -1.5L1.5 0L0 1.5L-1.5 0Z",
  "M0 -1.7L1.7 1.3L-1.7 1.3Z",
  "M-1.6 -.8L-.8 -1.6L0 -.8L.8 -1.6L1.6 -.8L.8 0L1.6 .8L.8 1.6L0 .8L-.8 1.6L-1.6 .8L-.8 0Z",
];
const MARGIN = 40;
const WIDTH = 1000 + 2 * MARGIN;

// An element of SVG: any figure of the page knows how these are called.
function draw(tag, attributes, ...children) {
  const element = document.createElementNS(document.querySelector("svg").namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const positionOf = (plane, place) => [plane[2 * place], plane[2 * place + 1]];
const classAt = (place) => (map.legend.includes(map.answers[place]) ? map.answers[place] : -1);
const isShown = (place) => marks.only === null || classAt(place) === marks.only;
const queryAt = (place) => data.queries.find((query) => query.row === map.rows[place]);

// Six colours, filled and then hollow; what is rarer has none.
function lookOf(answer, kind) {
  const rank = map.legend.indexOf(answer);
  const color = rank < 0 ? "" : ` look-${rank % 6}${rank < 6 ? "" : " hollow"}`;
  return `point${color}${kind > 0 ? " told" : ""}`;
}

function drawPlane(box, plane) {
  const size = map.rows.length > 700 ? 8 : 12;
  const points = map.rows.map((_, place) => {
    const [x, y] = positionOf(plane, place);
    const kind = map.kinds[place];
    return draw("path", { d: SHAPES[kind], class: lookOf(map.answers[place], kind),
      transform: `translate(${x} ${y}) scale(${size})` });
  });
  const ring = draw("circle", { class: "ring", r: 28, visibility: "hidden" });
  const places = points.map((_, place) => place).sort((a, b) => map.kinds[a] - map.kinds[b] || a - b);
  const view = `${-MARGIN} ${-MARGIN} ${WIDTH} ${WIDTH}`;
  box.append(draw("svg", { viewBox: view, "aria-hidden": "true" }, ...places.map((place) => points[place]), ring));
  marks.rings.push(ring);
  marks.points.push(points);
}

function nearestTo(plane, x, y, allowed = () => true) {
  let best = null;
  let least = Infinity;
  for (let place = 0; place < map.rows.length; place += 1) {
    const [u, v] = positionOf(plane, place);
    const distance = (u - x) ** 2 + (v - y) ** 2;
    if (distance < least && isShown(place) && allowed(u - x, v - y)) [best, least] = [place, distance];
  }
  return best;
}

function mark(place) {
  if (place === null || place === marks.place) return;
  marks.place = place;
  Object.values(map.planes).forEach((plane, number) => {
    const [cx, cy] = positionOf(plane, place);
    for (const [name, value] of Object.entries({ cx, cy, visibility: "visible" })) {
      marks.rings[number].setAttribute(name, value);
    }
  });
  byId("map-card").replaceChildren(...describe(place));
}

function describe(place) {
  const row = map.rows[place];
  const name = data.ids[row] ?? map.ids[row];
  const source = data.pictures[row] ?? map.pictures[row];
  const image = source === undefined
    ? make("span", { class: "tile", title: name }, name)
    : make("img", { src: source, alt: name, width: 96, height: 96 });
  const [before, after] = [map.base[place], map.answers[place]].map(className);
  const open = make("button", { type: "button" }, "Open in the explorer");
  open.addEventListener("click", () => openQuery(place));
  return [image, make("div", {},
    make("p", {}, name, map.truth === null ? "" : `, true class: ${className(map.truth[place])}`),
    make("p", {}, before === after ? "" : `${before} → `, make("b", {}, after), ` (${KINDS[map.kinds[place]]})`,
      queryAt(place) ? open : make("small", {}, " · the explorer does not list it")))];
}

function openQuery(place) {
  if (place === null || !queryAt(place)) return;
  const address = `#q-${map.rows[place]}`;
  if (window.location.hash === address) followLink();
  else window.location.hash = address;
}

// ---- pointer and keys

function listen(box, plane) {
  const under = (event) => {
    const { left, top, width } = box.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top].map((at) => (at / width) * WIDTH - MARGIN);
    return nearestTo(plane, x, y, (u, v) => u * u + v * v < 3600);
  };
  box.addEventListener("pointermove", (event) => mark(under(event)));
  box.addEventListener("click", (event) => {
    const place = under(event);
    mark(place);
    if (event.pointerType !== "touch") openQuery(place);  // a finger has the button
  });
  box.addEventListener("focus", () => {
    if (marks.place === null) mark(nearestTo(plane, 500, 500));
  });
  box.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Enter") openQuery(marks.place);
    if (!step || marks.place === null) return;
    event.preventDefault();
    const along = (u, v) => u * step[0] + v * step[1];
    const across = (u, v) => Math.abs(u * step[1] + v * step[0]);
    mark(nearestTo(plane, ...positionOf(plane, marks.place),
      (u, v) => along(u, v) > 0 && across(u, v) <= along(u, v)));
  });
}

// ---- legends

const sample = (look, kind) => draw("svg", { viewBox: "-2 -2 4 4", "aria-hidden": "true" },
  draw("path", { d: SHAPES[kind], class: look }));

function renderShapes() {
  const met = new Set(map.kinds);
  KINDS.forEach((words, kind) => {
    const look = `point${kind ? " told" : ""}`;
    if (met.has(kind)) byId("map-shapes").append(make("span", {}, sample(look, kind), words), " ");
  });
}

function renderClasses() {
  const entries = map.legend.map((number) => [number, className(number)]);
  if (map.others) entries.push([-1, `${map.others} other`]);
  byId("map-classes").append(...entries.map(([number, name]) => {
    const count = map.rows.filter((_, place) => classAt(place) === number).length;
    const button = make("button", { type: "button", "aria-pressed": "false" },
      sample(lookOf(number, 0), 0), make("span", {}, name), make("small", {}, ` ${count}`));
    button.addEventListener("click", () => showOnly(number, button));
    return button;
  }));
}

function showOnly(number, button) {
  marks.only = marks.only === number ? null : number;
  for (const each of byId("map-classes").children) {
    each.setAttribute("aria-pressed", String(each === button && marks.only !== null));
  }
  for (const points of marks.points) {
    points.forEach((point, place) => point.classList.toggle("faint", !isShown(place)));
  }
}

function startMap() {
  const planes = Object.values(map.planes);
  document.querySelector(".map").hidden = false;
  document.querySelectorAll(".plane").forEach((box, number) => {
    drawPlane(box, planes[number]);
    listen(box, planes[number]);
  });
  renderShapes();
  renderClasses();
  byId("map-card").append(make("p", {}, "Point at an image, or step through a map with the keys."));
}
