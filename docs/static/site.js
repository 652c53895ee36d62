// What the theme and the generator leave out for readers who use a keyboard or a screen reader.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const each = (chosen, change) => document.querySelectorAll(chosen).forEach(change);
  each(".caption[role=heading]", (caption) => caption.setAttribute("aria-level", "2"));
  each(".sidebar-drawer", (aside) => aside.setAttribute("aria-label", "Site"));
  each(".toc-drawer", (aside) => aside.setAttribute("aria-label", "Page"));
  each("pre, .table-wrapper", (wide) => wide.setAttribute("tabindex", "0"));  // may scroll sideways
  each("dt.sig dl", (list) => {  // the parameters of a call: a layout, no list of words
    const lines = [...list.children].map((line) => {
      const block = document.createElement("div");
      block.className = "parameter";
      block.append(...line.childNodes);
      return block;
    });
    list.replaceWith(...lines);
  });
  if (!document.querySelector("h1")) {  // the page of search results
    const title = document.createElement("h1");
    title.textContent = "Search";
    document.querySelector("article")?.prepend(title);
  }
});
