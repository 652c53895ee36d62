// Figures: one space stands out in all of them at once, under the pointer or by its name.

const figures = [...document.querySelectorAll(".figure")];
let chosen = "";

function light(place) {
  for (const figure of figures) {
    const parts = [...figure.querySelectorAll("[data-space]")];
    for (const part of parts) part.classList.toggle("on", part.dataset.space === place);
    figure.classList.toggle("lit", parts.some((part) => part.dataset.space === place));
  }
  for (const menu of document.querySelectorAll(".figure-tools select")) {
    menu.value = [...menu.options].some((each) => each.value === place) ? place : "";
  }
}

function choose(place) {
  chosen = place;
  light(place);
}

// Thin lines are hard to hit: each gets a wide twin that is not seen.
function widen(figure) {
  for (const path of figure.querySelectorAll("[data-space] > path")) {
    const twin = path.cloneNode();
    twin.setAttribute("style", "fill: none; stroke: #000; stroke-opacity: 0; stroke-width: 9; pointer-events: stroke");
    path.after(twin);
  }
}

function menuOf(figure) {
  const places = new Set([...figure.querySelectorAll("[data-space]")].map((part) => part.dataset.space));
  if (places.size < 3) return;
  const menu = make("select", {}, make("option", { value: "" }, "every space"),
    ...[...places].sort((a, b) => a - b).map((place) => make("option", { value: place }, data.looks[place])));
  menu.addEventListener("change", () => choose(menu.value));
  figure.after(make("p", { class: "figure-tools" }, make("label", {}, "Let stand out ", menu)));
}

function startFigures() {
  const placeAt = (event) => event.target.closest("[data-space]")?.dataset.space;
  for (const figure of figures) {
    widen(figure);
    menuOf(figure);
    figure.addEventListener("pointerover", (event) => light(placeAt(event) ?? chosen));
    figure.addEventListener("pointerleave", () => light(chosen));
    figure.addEventListener("click", (event) => {
      const place = placeAt(event) ?? "";
      choose(place === chosen ? "" : place);
    });
  }
}
