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
    const width = plot.inner_width, {start, end} = plot.x_range, taken = [], lines = [];
    const view = Bokeh.index.find_one_by_id(plot.id);
    if (!width) return;
    const labels = plot.center.filter(one => one.tags.length && one.text !== undefined);
    labels.sort((a, b) => a.tags[0] - b.tags[0]);
    for (const label of labels) {
      const size = 6.4 * label.text.length + 8, edge = (label.x - start) / (end - start) * width;
      if (label.y_units === "data") {  // on a line, at the left; the other texts stand along the top
        const at = view ? view.frame.y_scale.compute(label.y) - view.frame.bbox.top : plot.inner_height;
        const clear = at > 30 || taken.every(([left]) => left > size + 4);
        const free = clear && lines.every(one => Math.abs(one - at) > 13);
        if (free) lines.push(at);
        label.setv({x: start, x_offset: 4, visible: free});
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

  // ---- what the controls of a run do to its charts: `page` is the beginning of its element ids ----

  // Linear between the known points and beyond them.
  const between = (from, to) => value => {
    let low = 0, high = from.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (from[middle] <= value) low = middle; else high = middle;
    }
    return to[low] + (value - from[low]) / (from[high] - from[low]) * (to[high] - to[low]);
  };
  const same = value => value;
  const overs = {};  // page -> {name, at: step -> x, back: x -> step}
  const over = page => overs[page] || {name: "step", at: same, back: same};
  const first = new Map();  // model -> what it was drawn with, in steps
  const kept = (model, make) => first.get(model) || first.set(model, make()).get(model);

  const moveRange = (range, at, now) => {
    const own = kept(range, () => [range.start, range.end]);
    const [start, end] = now || own, whole = own.map(at);
    range.setv({bounds: null});
    range.setv({start: at(start), end: at(end), reset_start: whole[0], reset_end: whole[1]});
    range.setv({bounds: whole});
  };
  const moveColumn = (source, glyph, at) => {
    const field = kept(glyph, () => glyph.x.field);
    source.data = {...source.data, at: Array.from(source.data[field], at)};
    glyph.x = {field: "at"};
  };
  // Columns of a heat map are equal stretches of steps: on another axis each shows what was there.
  const moveImage = (source, glyph, at, back) => {
    const own = kept(glyph, () => ({x: glyph.x.value, dw: glyph.dw.value, image: source.data.image[0]}));
    const [rows, columns] = own.image.shape, x = at(own.x), dw = at(own.x + own.dw) - x;
    const moved = new own.image.constructor(own.image, own.image.shape);
    for (let column = 0; column < columns; column++) {
      const share = (back(x + (column + 0.5) / columns * dw) - own.x) / own.dw;
      const from = Math.min(columns - 1, Math.max(0, Math.floor(share * columns)));
      for (let row = 0; row < rows; row++) moved[row * columns + column] = own.image[row * columns + from];
    }
    source.data = {...source.data, image: [moved]};
    glyph.setv({x: {value: x}, dw: {value: dw}});
  };
  const moveMark = (mark, at) => {
    for (const key of mark.dimension === "height" ? ["location"] : mark.left !== undefined ? ["left", "right"] : ["x"]) {
      if (typeof mark[key] !== "number") continue;
      const own = kept(mark, () => ({}));
      own[key] ??= mark[key];
      mark[key] = at(own[key]);
    }
  };
  const setX = (page, name) => {
    const before = over(page), [steps, at, unit] = axes[page]?.[name] || [];
    const now = steps ? {name, unit, at: between(steps, at), back: between(at, steps)} : {name: "step", at: same, back: same};
    const done = new Set();
    for (const plot of plots.filter(one => one.tags[0] === page)) {
      const range = plot.x_range;
      if (!done.has(range)) moveRange(range, now.at, [range.start, range.end].map(before.back));
      done.add(range);
      for (const {data_source: source, glyph} of plot.renderers) {
        if (glyph.dw) moveImage(source, glyph, now.at, now.back); else moveColumn(source, glyph, now.at);
      }
      plot.center.filter(one => one.name !== "limit" && one.name !== "limit-text").forEach(one => moveMark(one, now.at));
      for (const axis of plot.below) axis.formatter.format = steps ? "0,0.[000]" : "0,0";
    }
    overs[page] = now;
    plots.filter(one => one.tags[0] === page).forEach(arrange);
  };
  const setY = (page, wanted) => {
    for (const plot of plots.filter(one => one.tags[0] === page && one.tags[1].range)) {
      const own = kept(plot, () => ({
        log: plot.y_scale.type === "LogScale", turned: false, scale: plot.y_scale, ticker: plot.left[0].ticker,
        range: [plot.y_range.start, plot.y_range.end]}));
      const turn = wanted !== "own" && (wanted === "log") !== own.log;
      if (turn === own.turned) continue;
      own.turned = turn;
      const {range, scale, ticker} = turn ? plot.tags[1] : own, [start, end] = range;
      plot.y_range.setv({start, end, reset_start: start, reset_end: end});
      plot.y_scale = scale;
      plot.left[0].ticker = ticker;
      const bad = plot.renderers.find(one => one.glyph.name === "bad");
      const edge = plot.y_scale.type === "LogScale" ? end * (start / end) ** 0.16 : end - 0.16 * (end - start);
      if (bad) bad.data_source.data = {...bad.data_source.data, y: Array.from(bad.data_source.data.y, () => edge)};
    }
  };
  const smoothed = values => {
    const reach = Math.max(2, Math.round(values.length / 50));
    return Array.from(values, (own, at) => {
      const near = Array.from(values.slice(Math.max(0, at - reach), at + reach + 1)).filter(Number.isFinite);
      return Number.isFinite(own) ? near.reduce((sum, one) => sum + one, 0) / near.length : NaN;
    });
  };
  const setSmooth = (page, on) => {
    for (const plot of plots.filter(one => one.tags[0] === page)) {
      for (const raw of plot.renderers.filter(one => one.name === "raw")) {
        const source = raw.data_source, line = plot.renderers.find(one => one.name === "line" && one.data_source === source);
        if (on && !source.data.smooth) source.data = {...source.data, smooth: smoothed(source.data.value)};
        raw.visible = on;
        line.glyph.y = {field: on ? "smooth" : "value"};
      }
    }
  };
  const show = (range, start, end) => {
    const [low, high] = range.bounds, wide = Math.min(end - start, high - low);
    const from = Math.min(Math.max(start, low), high - wide);
    range.setv({start: from, end: from + wide});
  };
  const shared = page => new Set(plots.filter(one => one.tags[0] === page && one.panel).map(one => one.x_range));
  const whole = range => range.bounds && show(range, ...range.bounds);

  const press = (group, button) => group.forEach(one => one.setAttribute("aria-pressed", one === button));
  const control = bar => {
    const page = bar.dataset.page;
    for (const [part, set] of [["x", setX], ["y", setY]]) {
      const group = [...bar.querySelectorAll(`[data-${part}]`)];
      group.forEach(one => one.addEventListener("click", () => { press(group, one); set(page, one.dataset[part]); }));
    }
    const smooth = bar.querySelector("[data-smooth]");
    smooth.addEventListener("click", () => {
      const on = smooth.getAttribute("aria-pressed") !== "true";
      smooth.setAttribute("aria-pressed", on);
      setSmooth(page, on);
    });
    bar.querySelector("[data-reset]").addEventListener("click", () => shared(page).forEach(whole));
    bar.hidden = false;
  };
  // Keys on a chart, and a click on a band, which leads to its finding.
  const attend = (plot, box) => {
    const figure = box.closest("figure");
    plot.panel = Boolean(figure.id || figure.closest("[data-ranks]"));
    box.addEventListener("keydown", event => {
      const {start, end} = plot.x_range, wide = end - start, middle = (start + end) / 2;
      const moves = {ArrowLeft: [start - wide / 5, end - wide / 5], ArrowRight: [start + wide / 5, end + wide / 5],
        "+": [middle - wide / 4, middle + wide / 4], "-": [middle - wide, middle + wide]};
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "0") whole(plot.x_range);
      else if (moves[event.key]) show(plot.x_range, ...moves[event.key]);
      else return;
      event.preventDefault();
    });
    const bandAt = event => {
      const view = Bokeh.index.find_one_by_id(plot.id), left = box.getBoundingClientRect().left + (view?.frame.bbox.left ?? 0);
      const {start, end} = plot.x_range, each = (end - start) / plot.inner_width, x = start + (event.clientX - left) * each;
      return plot.center.find(one => /^(band|thin)-/.test(one.name) &&
        (one.left ?? one.location) - 5 * each <= x && x <= (one.right ?? one.location) + 5 * each);
    };
    const link = band => band && figure.querySelector(`a[data-n="${band.tags[0]}"]`);
    let down = [0, 0];
    box.addEventListener("pointerdown", event => { down = [event.clientX, event.clientY]; }, true);
    box.addEventListener("click", event => {
      if (Math.hypot(event.clientX - down[0], event.clientY - down[1]) < 4) link(bandAt(event))?.click();
    });
  };
  const zoomTo = link => {
    const page = link.closest("[data-run]").dataset.run, [from, to] = link.dataset.zoom.split(",").map(Number);
    for (const range of shared(page)) {
      if (!range.bounds) continue;
      const back = over(page).back, wide = back(range.bounds[1]) - back(range.bounds[0]);
      const room = Math.max(0.6 * (to - from), 0.01 * wide, 10);
      show(range, over(page).at(from - room), over(page).at(to + room));
    }
  };

  // ---- drawing: the charts in and near the window first, the others one by one while nothing else is to be done ----

  let models = [], plots = [], axes = {}, elements = {};
  const charts = document.getElementById("charts");
  const rest = () => new Promise(go => window.requestIdleCallback ? requestIdleCallback(go) : setTimeout(go, 30));
  const turn = () => new Promise(go => { const {port1, port2} = new MessageChannel(); port1.onmessage = go; port2.postMessage(0); });
  const drawAll = async (views, boxes) => {
    const waiting = new Set(plots), near = new Set();
    let wake = () => {};
    const watch = new IntersectionObserver(told => {
      for (const {target, isIntersecting} of told) {
        if (isIntersecting) near.add(boxes.get(target)); else near.delete(boxes.get(target));
      }
      if (near.size) wake();
    }, {rootMargin: "400px 0px"});
    const one = async plot => {
      waiting.delete(plot);
      near.delete(plot);
      const box = document.getElementById(elements[plot.id]);
      watch.unobserve(box);
      const view = await views.build_view(plot);
      view.build(box);
      arrange(plot);
    };
    boxes.forEach((_, box) => watch.observe(box));
    await turn();
    while (waiting.size) {
      if (!near.size) await Promise.race([rest(), new Promise(go => { wake = go; })]);
      await one(near.values().next().value ?? waiting.values().next().value);
      await turn();
    }
    document.documentElement.dataset.drawn = plots.length;
  };
  const draw = async () => {
    const told = JSON.parse(charts.textContent);
    axes = told.axes;
    elements = told.roots;
    paintText(told.doc);
    const [views] = await Bokeh.embed.embed_items({page: told.doc}, [{docid: "page", roots: {}, root_ids: []}]);
    const made = Bokeh.documents[Bokeh.documents.length - 1], boxes = new Map();
    models = [...made._all_models.values()];
    plots = made.roots()[0].tags;
    for (const plot of plots) {
      const later = () => arrange(plot), box = document.getElementById(elements[plot.id]);
      plot.properties.inner_width.change.connect(later);
      plot.properties.inner_height.change.connect(later);
      plot.x_range.change.connect(later);
      attend(plot, box);
      boxes.set(box, plot);
    }
    document.querySelectorAll(".ctl.charts").forEach(control);
    document.querySelectorAll("a[data-zoom]").forEach(one => one.addEventListener("click", () => zoomTo(one)));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paintModels);
    // Paper is white: the canvases are painted anew, at once, since nothing waits for the next frame before printing.
    // Of charts not yet drawn the page prints their words.
    const printing = light => () => {
      document.documentElement.classList.toggle("light", light);
      paintModels();
      for (const plot of plots) {
        const view = Bokeh.index.find_one_by_id(plot.id);
        for (const part of view?.renderer_views?.values() ?? []) part.set_visuals?.();
        view?.paint?.();
      }
    };
    addEventListener("beforeprint", printing(true));
    addEventListener("afterprint", printing(false));
    await drawAll(views, boxes);
  };
  // The words stand on the screen before the charts are drawn.
  if (charts && window.Bokeh) requestAnimationFrame(() => setTimeout(draw));
})();
