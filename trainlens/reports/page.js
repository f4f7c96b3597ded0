"use strict";
(() => {
  // A link to what is folded in opens it.
  const unfold = () => {
    let part = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (const at = part; part; part = part.parentElement) {
      if (part.tagName === "DETAILS" && !part.open) { part.open = true; at.scrollIntoView(); }
    }
  };
  addEventListener("hashchange", unfold);
  unfold();

  // On a narrow screen the later of two findings' pins that meet is left out; the list below has them all.
  const space = () => {
    for (const lane of document.querySelectorAll(".lane")) {
      const pins = [...lane.querySelectorAll(":scope > .pin")], taken = [];
      for (const pin of pins) pin.style.display = "";
      for (const pin of pins) {
        const {left, right} = pin.getBoundingClientRect();
        if (taken.some(([from, to]) => left < to && right > from)) pin.style.display = "none";
        else taken.push([left, right]);
      }
    }
  };
  addEventListener("resize", space);
  space();

  // The table of several runs: filter and order.
  const body = document.querySelector(".fl tbody");
  if (!body) return;
  const rows = [...body.rows], query = document.getElementById("q"), count = document.getElementById("o");
  let state = "all";
  const show = () => {
    const text = query.value.toLowerCase();
    let seen = 0;
    for (const row of rows) {
      const kept = (state === "all" || row.dataset.s === state) && row.textContent.toLowerCase().includes(text);
      row.hidden = !kept;
      seen += kept;
    }
    count.textContent = seen + (seen === 1 ? " run" : " runs");
  };
  query.addEventListener("input", show);
  for (const button of document.querySelectorAll("[data-f]")) {
    button.addEventListener("click", () => {
      state = button.dataset.f;
      document.querySelectorAll("[data-f]").forEach(one => one.setAttribute("aria-pressed", one === button));
      show();
    });
  }
  for (const button of document.querySelectorAll("[data-c]")) {
    button.addEventListener("click", () => {
      const head = button.parentNode, column = Number(button.dataset.c);
      const way = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      document.querySelectorAll("th[aria-sort]").forEach(one => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
      const value = row => {
        const cell = row.cells[column];
        return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
      };
      const order = (a, b) => typeof a === "number" ? a - b : a.localeCompare(b);
      rows.sort((a, b) => way * order(value(a), value(b)));
      body.append(...rows);
    });
  }
})();
