// Charts over uPlot in the colours of the page, with a line of words below: what is drawn, and how much.

import { make, short, write } from "./elements.js";

const dark = matchMedia("(prefers-color-scheme: dark)");
const HEIGHT = 190;

/** A figure in `place`; `series` are [name, colour, dash, fill?], `format` writes a value of y. */
export function chart(place, { about, series, x, format, range, xIs = "number" }) {
  const figure = make("div", { class: "chart", role: "img" });
  const readings = series.map(([, color]) => make("span", { class: `reading ${color}` }));
  const at = make("span", { class: "reading at" });
  place.append(figure, make("p", { class: "legend" }, ...readings, at));
  let plot = null, data = null;

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const read = (index) => {
    series.forEach(([name], place) => write(readings[place], `${name} ${format(data[place + 1][index])}`));
    write(at, `${x} ${short(data[0][index])}`);
  };

  function draw() {
    plot?.destroy();
    const axis = { stroke: color("muted"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    plot = new uPlot({
      width: figure.clientWidth || 300, height: HEIGHT,
      padding: [8, 18, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { setScale: false, x: false }, points: { size: 7 } },
      scales: { x: { time: false }, y: { range } },
      axes: [{ ...axis, size: 28, space: 60, values: (_, ticks) => ticks.map(short) }, { ...axis, size: 52, space: 34, values: (_, ticks) => ticks.map(format) }],
      series: [{}, ...series.map(([name, shade, dash, fill]) => ({ label: name, stroke: color(shade), width: 2, dash, points: { show: false },
        fill: fill && `${color(shade)}2e`, paths: fill === "steps" ? uPlot.paths.stepped({ align: 1 }) : undefined }))],
      hooks: { setCursor: [(drawn) => read(drawn.cursor.idx ?? data[0].length - 1)] },
    }, data, figure);
  }

  const resize = new ResizeObserver(() => plot?.setSize({ width: figure.clientWidth, height: HEIGHT }));
  resize.observe(figure);
  const recolor = () => data && draw();
  dark.addEventListener("change", recolor);
  return {
    set(columns) {
      data = columns;
      if (plot) plot.setData(data); else draw();
      if (!plot.cursor.idx) read(data[0].length - 1);
      figure.setAttribute("aria-label", `${about}; last: ${series.map(([name], i) => `${name} ${format(data[i + 1].at(-1))}`).join(", ")}`);
    },
    close() {
      resize.disconnect();
      dark.removeEventListener("change", recolor);
      plot?.destroy();
    },
  };
}

/** Buckets of a history as [steps, rates of disagreement, weights]; few steps make no rate. */
export function merged(buckets, least = 25) {
  const columns = [[], [], []];
  let steps = 0, disagreements = 0, weights = 0;
  buckets.forEach((each, place) => {
    steps += each.steps; disagreements += each.disagreements; weights += each.weight * each.steps;
    if (steps < least && (place < buckets.length - 1 || columns[0].length)) return;
    [each.seq, disagreements / steps, weights / steps].forEach((value, column) => columns[column].push(value));
    steps = disagreements = weights = 0;
  });
  return columns;
}

/** A small line of rates between 0 and 1, oldest first. */
export function sparkline(rates) {
  const make = (tag, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const top = Math.max(0.02, ...rates);
  const at = rates.map((rate, place) => `${(100 * place) / Math.max(1, rates.length - 1)},${29 - (27 * rate) / top}`);
  const svg = make("svg", { class: "spark", viewBox: "0 0 100 30", preserveAspectRatio: "none", "aria-hidden": "true" });
  if (at.length > 1) svg.append(make("polygon", { points: `0,30 ${at.join(" ")} 100,30` }), make("polyline", { points: at.join(" ") }));
  return svg;
}
