"use strict";
const search = document.getElementById("search");
const found = document.getElementById("found");
const sections = [...document.querySelectorAll("details.experiment")];
const links = new Map([...document.querySelectorAll("nav [data-to]")].map((item) => [item.dataset.to, item]));

function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const section of sections) {
    const fits = words.every((word) => section.dataset.search.includes(word));
    section.hidden = !fits;
    links.get(section.dataset.name).hidden = !fits;
    shown += fits;
  }
  for (const group of document.querySelectorAll(".group")) {
    group.hidden = !group.querySelector("details.experiment:not([hidden]), li:not([hidden])");
  }
  found.textContent = words.length ? `${shown} of ${sections.length} experiments` : "";
}

function unfold() {
  const target = document.getElementById(location.hash.slice(1));
  const section = target && target.closest("details.experiment");
  if (!section) return;
  if (section.hidden) { search.value = ""; filter(); }
  section.open = true;
  target.scrollIntoView();
}

search.addEventListener("input", filter);
search.addEventListener("keydown", (event) => {
  const first = sections.find((section) => !section.hidden);
  if (event.key === "Enter" && first) { first.open = true; first.querySelector("summary").focus(); }
});
document.getElementById("unfold").addEventListener("click", () => sections.forEach((each) => { each.open = true; }));
document.getElementById("fold").addEventListener("click", () => sections.forEach((each) => { each.open = false; }));
addEventListener("hashchange", unfold);
document.addEventListener("click", (event) => {  // a link to the place where one is already
  const link = event.target.closest('a[href^="#"]');
  if (link && link.hash === location.hash) unfold();
});
let folded = [];
addEventListener("beforeprint", () => {
  folded = sections.filter((section) => !section.open);
  folded.forEach((section) => { section.open = true; });
});
addEventListener("afterprint", () => folded.forEach((section) => { section.open = false; }));
document.querySelector(".finder").hidden = false;
filter();
unfold();
