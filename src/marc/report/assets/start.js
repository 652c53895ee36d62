// Keys, links and tables; the last of the scripts, which starts the page.

function onKey(event) {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const typing = event.target.matches("input[type=search], input[type=number], select");
  const onList = event.target === byId("list");
  const step = { j: 1, k: -1 }[event.key];
  const arrow = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
  if (step !== undefined && !typing) moveBy(step);
  else if (arrow !== undefined && onList) moveBy(arrow);
  else if (onList && event.key === "Home") moveBy(-state.listed.length);
  else if (onList && event.key === "End") moveBy(state.listed.length);
  else return;
  event.preventDefault();
}

function followLink() {
  const found = /^#q-(\d+)$/.exec(window.location.hash);
  const query = found && data.queries.find((each) => each.row === Number(found[1]));
  if (!query) {
    if (!found) return;
    byId("found").textContent = `That image is not among the ${data.queries.length} queries listed here`;
    byId("explorer").scrollIntoView();
    return;
  }
  if (!state.listed.includes(query)) {
    document.querySelector("input[name=kind][value=all]").checked = true;
    byId("search").value = "";
    renderList();
  }
  select(query);
  byId("list").focus({ preventScroll: true });  // the keys go on from here
  byId("explorer").scrollIntoView();
}

function sortBy(table, column) {
  const head = table.tHead.rows[0].cells[column];
  const direction = head.getAttribute("aria-sort") === "descending" ? 1 : -1;
  for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
  const value = (row) => row.cells[column].dataset.value;
  const compare = (a, b) => (column === 0 ? value(b).localeCompare(value(a)) : Number(value(a)) - Number(value(b)));
  const rows = [...table.tBodies[0].rows].sort((a, b) => direction * compare(a, b));
  table.tBodies[0].append(...rows);
}

function startSlider() {
  byId("slider").addEventListener("input", (event) => setWeight(data.stops[Number(event.target.value)]));
  byId("weight").addEventListener("input", (event) => {
    const weight = Number(event.target.value);
    if (event.target.value !== "" && weight >= 0 && weight < 1e9) setWeight(weight);
  });
  byId("reset").addEventListener("click", () => setWeight(data.weight));
  setWeight(data.weight);
}

function start() {
  for (const table of document.querySelectorAll("table.sortable")) {
    table.tHead.querySelectorAll("button").forEach((button, column) => {
      button.addEventListener("click", () => sortBy(table, column));
    });
  }
  document.querySelector(".explorer").hidden = false;
  if (data.stops) startSlider();
  byId("previous").addEventListener("click", () => moveBy(-1));
  byId("next").addEventListener("click", () => moveBy(1));
  byId("search").addEventListener("input", refilter);
  for (const radio of document.querySelectorAll("input[name=kind]")) radio.addEventListener("change", refilter);
  byId("list").addEventListener("click", (event) => {
    const chosen = event.target.closest(".option");
    if (chosen) visit(state.listed.find((query) => String(query.row) === chosen.dataset.row));
  });
  document.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", followLink);
  startFigures();
  if (data.map) startMap();
  renderList();
  followLink();
}

start();
