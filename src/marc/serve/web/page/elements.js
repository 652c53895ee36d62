// Elements and numbers as every part of the page writes them. Text is set as text, never as markup,
// so that a name cannot do anything but be read.

export function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** What a template holds, and its parts by name. */
export function fromTemplate(id, parent) {
  parent.replaceChildren(document.getElementById(id).content.cloneNode(true));
  return Object.fromEntries([...parent.querySelectorAll("[data-is]")].map((each) => [each.dataset.is, each]));
}

/** Set text only where it changed: what listens to it is not disturbed. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A bar of a length between 0 and 1. */
export function bar(length, kind = "") {
  const inner = make("i", { class: kind });
  inner.style.width = `${100 * Math.min(1, Math.max(0, length || 0))}%`;
  return make("span", { class: "track" }, inner);
}

export const mark = (name, kind = "mark") => make("bdi", { class: kind, title: name }, name);

const whole = new Intl.NumberFormat("en-US");
const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const missing = (value) => value === null || value === undefined || Number.isNaN(value);
const minus = (text) => text.replace("-", "−");

export const count = (value) => (missing(value) ? "–" : whole.format(value));
export const short = (value) => (missing(value) ? "–" : minus(compact.format(value)));
export const decimal = (value) => (missing(value) ? "–" : minus(String(Number(value.toPrecision(3)))));
export const percent = (value) => (missing(value) ? "–" : `${minus((100 * value).toFixed(value && Math.abs(value) < 0.0995 ? 2 : 1))} %`);
export const points = (value) => `${value > 0 ? "+" : ""}${minus((100 * value).toFixed(Math.abs(value) < 0.0995 ? 2 : 1))}`;
export const clock = (seconds) => new Date(1000 * seconds).toLocaleTimeString();
export const day = (seconds) => new Date(1000 * seconds).toLocaleString();

/** The same function, called at most every so many milliseconds, the last time with the newest. */
export function atMost(every, work) {
  let timer = null, last = -Infinity;
  const run = () => { timer = null; last = performance.now(); work(); };
  return () => { timer ??= setTimeout(run, Math.max(0, last + every - performance.now())); };
}
