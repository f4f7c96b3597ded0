"use strict";
(() => {
  // Bokeh draws on a canvas, which knows no CSS: a model's name is its role, and the page's variables give the colours.
  const ROLES = {
    curve1: {line_color: "--s1", fill_color: "--s1"}, curve2: {line_color: "--s2", fill_color: "--s2"},
    curve3: {line_color: "--s3", fill_color: "--s3"},
    range1: {fill_color: "--s1-raw"}, range2: {fill_color: "--s2-raw"}, range3: {fill_color: "--s3-raw"},
    "band-error": {fill_color: "--error"}, "band-warning": {fill_color: "--bandfill"}, "band-info": {fill_color: "--s1"},
    "thin-error": {line_color: "--error"}, "thin-warning": {line_color: "--bandline"}, "thin-info": {line_color: "--info"},
    "chip-error": {text_color: "--error", background_fill_color: "--error-bg"},
    "chip-warning": {text_color: "--warning", background_fill_color: "--warning-bg"},
    "chip-info": {text_color: "--info", background_fill_color: "--info-bg"},
    above: {text_color: "--ink", background_fill_color: "--bg"},
    limit: {line_color: "--soft"}, "limit-text": {text_color: "--soft", background_fill_color: "--bg"},
    axis: {major_label_text_color: "--soft", axis_line_color: "--line"}, "axis-y": {major_label_text_color: "--soft"},
    grid: {grid_line_color: "--grid"}, cross: {line_color: "--soft"}, bad: {line_color: "--error"},
    outline: {outline_line_color: "--line"},
  };
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const each = (part, act) => {
    if (Array.isArray(part)) part.forEach(one => each(one, act));
    else if (part && typeof part === "object") {
      if (part.attributes) act(part.attributes);
      Object.values(part).forEach(one => each(one, act));
    }
  };
  const paintText = told => each(told, own => {
    for (const [key, name] of Object.entries(ROLES[own.name] || {})) {
      if (own[key] && typeof own[key] === "object") own[key].value = colour(name);
      else if (key in own) own[key] = colour(name);
    }
  });
  const paintModels = () => {
    for (const model of models) {
      const wanted = {};
      for (const [key, name] of Object.entries(ROLES[model.name] || {})) {
        const now = model[key];
        if (now !== undefined && now !== null) {
          wanted[key] = typeof now === "object" && "value" in now ? {value: colour(name)} : colour(name);
        }
      }
      model.setv(wanted);
    }
  };

  // Texts within a plot keep clear of one another: the later one is hidden. Narrow plots have fewer ticks.
  const arrange = plot => {
    const width = plot.inner_width, {start, end} = plot.x_range, taken = [];
    if (!width) return;
    const labels = plot.center.filter(one => one.tags.length && one.text !== undefined);
    labels.sort((a, b) => a.tags[0] - b.tags[0]);
    for (const label of labels) {
      const size = 6.4 * label.text.length + 8, edge = (label.x - start) / (end - start) * width;
      if (label.y_units === "data") {
        label.setv({x: start, x_offset: 4});
        continue;
      }
      const inside = edge >= -1 && edge <= width + 1;
      const after = label.tags[0] === 1 ? 1 : 22;
      const left = edge + after + size > width ? edge - size - 2 : edge + after;
      const free = inside && left >= 0 && taken.every(([a, b]) => left > b || left + size < a);
      if (free) taken.push([left, left + size]);
      label.setv({visible: free, x_offset: left - edge + 3, y: plot.inner_height - 3});
    }
    for (const axis of plot.below) axis.ticker.desired_num_ticks = width < 400 ? 3 : 5;
  };

  let models = [];
  const charts = document.getElementById("charts");
  const draw = async () => {
    const told = JSON.parse(charts.textContent);
    paintText(told.doc);
    const item = {docid: "page", roots: told.roots, root_ids: Object.keys(told.roots)};
    await Bokeh.embed.embed_items({page: told.doc}, [item]);
    const made = Bokeh.documents[Bokeh.documents.length - 1];
    models = [...made._all_models.values()];
    for (const plot of made.roots()) {
      const later = () => arrange(plot);
      plot.properties.inner_width.change.connect(later);
      plot.properties.inner_height.change.connect(later);
      plot.x_range.change.connect(later);
      later();
    }
    document.documentElement.dataset.drawn = made.roots().length;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paintModels);
    // Paper is white: the canvases are painted anew, at once, since nothing waits for the next frame before printing.
    const printing = light => () => {
      document.documentElement.classList.toggle("light", light);
      paintModels();
      for (const root of made.roots()) {
        const view = Bokeh.index.get_one_by_id?.(root.id);
        for (const part of view?.renderer_views?.values() ?? []) part.set_visuals?.();
        view?.paint?.();
      }
    };
    addEventListener("beforeprint", printing(true));
    addEventListener("afterprint", printing(false));
  };
  if (charts && window.Bokeh) draw();

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
