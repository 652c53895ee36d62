// The page's parts, one for each address: all memories, or one.

import { askForKey, hasKey } from "./api.js";
import { memory } from "./memory.js";
import { overview } from "./overview.js";

const main = document.getElementById("main");
let leave = null;

function nameIn(hash) {
  try {
    return decodeURIComponent(hash.replace(/^#\/?/, ""));
  } catch {
    return "";
  }
}

function enter(first) {
  leave?.abort();
  leave = new AbortController();
  document.getElementById("problem").hidden = true;
  const name = nameIn(location.hash);
  document.title = name ? `${name} · MARC` : "MARC";
  if (name) memory(main, name, leave.signal); else overview(main, leave.signal);
  if (first !== true) { scrollTo(0, 0); main.querySelector("h1").focus(); }
}

document.querySelector("#problem button").addEventListener("click", () => { document.getElementById("problem").hidden = true; });
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
document.getElementById("change-key").addEventListener("click", async () => {
  if (await askForKey(hasKey() ? "Another key takes the place of the one in use; an empty one forgets it." : "No key is in use in this tab.")) enter();
});
addEventListener("hashchange", (event) => { if (nameIn(new URL(event.oldURL).hash) !== nameIn(location.hash) || location.hash.startsWith("#/")) enter(); });
enter(true);
