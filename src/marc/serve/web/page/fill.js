// How full the memory of each class is, for two classes or thousands.

import { chart } from "./charts.js";
import { bar, count, make, mark, write } from "./elements.js";

const LISTED = 12;

export function fillOf(at, charts) {
  let classes = [], sizes = [], most = 1, drawn = null;

  function list() {
    const text = at["fill-search"].value.trim().toLowerCase(), order = Number(at["fill-order"].value);
    const places = [...classes.keys()].filter((place) => classes[place].toLowerCase().includes(text));
    places.sort((a, b) => order * (sizes[a] - sizes[b]) || a - b);
    const rows = places.slice(0, LISTED).map((place) => make("li", {}, mark(classes[place], "name"), bar(sizes[place] / most), make("span", { class: "number" }, count(sizes[place]))));
    const more = places.length > LISTED ? `and ${count(places.length - LISTED)} more` : places.length ? "" : "no such class";
    at["fill-list"].replaceChildren(make("ul", { class: "fill" }, ...rows), make("p", { class: "small" }, more));
  }

  at["fill-search"].addEventListener("input", list);
  at["fill-order"].addEventListener("change", list);
  return (info) => {
    const changed = info.sizes.join() !== sizes.join() || info.classes.length !== classes.length;
    [classes, sizes, most] = [info.classes, info.sizes, info.capacity ?? Math.max(1, ...info.sizes)];
    const empty = sizes.filter((size) => size === 0).length, full = sizes.filter((size) => info.capacity && size >= info.capacity).length;
    const room = info.capacity ? ` of ${count(info.capacity * classes.length)} places, ${count(info.capacity)} for each class` : "";
    write(at["fill-text"], `${count(info.held)} images${room}. Of ${count(classes.length)} classes ${info.capacity ? `${count(full)} are full and ` : ""}${empty ? `${count(empty)} are` : "none is"} empty.`);
    if (!changed) return;
    list();
    if (classes.length <= LISTED) return;
    if (!drawn) {
      at["chart-fill"].append(make("h3", {}, "All classes ", make("small", {}, "the fullest first")));
      drawn = chart(at["chart-fill"], { about: "images that are remembered of each class, the fullest first", x: "place", format: count,
        series: [["images", "first", undefined, "steps"]], range: (_, __, top) => [0, Math.max(top, info.capacity ?? 1)] });
      charts.push(drawn);
    }
    const sorted = [...sizes].sort((a, b) => b - a);
    drawn.set([sorted.map((_, place) => place + 1), sorted]);
  };
}
