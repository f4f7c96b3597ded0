"""The HTML page in a browser: it opens without a network or a complaint, answers mouse and keys, nothing overlaps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trainlens
from tests.browser import Opened, chromium, opened
from tests.reports import diagnoses
from trainlens.reports import html

SAMPLES = sorted(path.parent for path in (Path(__file__).parents[2] / "sample_logs").glob("*/expected.toml"))
WAYS = ((1280, "light"), (900, "dark"), (390, "light"))

# Texts on a plot as boxes in pixels: left, top, right, bottom, text.
LABELS = """() => Bokeh.documents[0].roots()[0].tags.map(plot => {
  const pen = document.createElement("canvas").getContext("2d"), {start, end} = plot.x_range;
  return plot.center.filter(one => one.text !== undefined && one.visible).map(one => {
    pen.font = `${one.text_font_style} ${one.text_font_size} ${one.text_font}`;
    const left = (one.x - start) / (end - start) * plot.inner_width + one.x_offset;
    const tall = parseFloat(one.text_font_size);
    const view = Bokeh.index.get_one_by_id(plot.id), from = view.frame.bbox.top;
    const at = one.y_units === "data" ? view.frame.y_scale.compute(one.y) - from : plot.inner_height - one.y;
    const top = one.text_baseline === "bottom" ? at - tall : at;
    return [left, top, left + pen.measureText(one.text).width, top + tall, one.text];
  });
})"""
BOXES = """places => places.map(place => [...document.querySelectorAll(place)].map(one => {
  const all = [...one.querySelectorAll(":scope > *")].filter(part => part.offsetWidth && part.textContent.trim());
  return all.map(part => {
    const {left, top, right, bottom} = part.getBoundingClientRect();
    return [left, top, right, bottom, part.textContent];
  });
})).flat()"""
# Bold texts in shadow trees, where Bokeh's tooltips stand.
BOLD = """() => {
  const texts = [];
  const walk = node => node.querySelectorAll("*").forEach(one => {
    if (one.shadowRoot) walk(one.shadowRoot);
    if (one.tagName === "B" && one.getRootNode() !== document) texts.push(one.textContent);
  });
  walk(document.body);
  return texts;
}"""
SHOWN = "() => Bokeh.documents[0].roots()[0].tags.flatMap(one => one.renderers).filter(one => one.visible).length"
RANGES = "() => Bokeh.documents[0].roots()[0].tags.map(one => [one.x_range.start, one.x_range.end])"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


def written(folder: Path, name: str) -> Path:
    """The page of a made-up diagnosis."""
    path = folder / f"{name}.html"
    path.write_bytes(html.render(getattr(diagnoses, name)(), html.Options()))
    return path


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("pages"), "faulty")


def overlapping(boxes: list[list[Any]]) -> list[tuple[str, str]]:
    """Pairs of texts of which one covers more than a pixel of the other."""
    return [
        (a[4], b[4])
        for at, a in enumerate(boxes)
        for b in boxes[at + 1 :]
        if min(a[2], b[2]) - max(a[0], b[0]) > 1 and min(a[3], b[3]) - max(a[1], b[1]) > 1
    ]


def is_clean(seen: Opened, where: str) -> None:
    """No complaint, no request, nothing wider than the window, no text over another."""
    assert seen.complaints == [], where
    assert seen.requests == [], where
    assert seen.do("document.documentElement.scrollWidth <= innerWidth"), f"{where}: wider than the window"
    for boxes in [*seen.do(LABELS), *seen.do(BOXES, [".chart figcaption", ".lane", ".nums"])]:
        pins = [box for box in boxes if box[4].strip()]
        assert overlapping(pins) == [], where


@pytest.mark.parametrize("sample", SAMPLES, ids=[path.name for path in SAMPLES])
def test_the_page_of_every_sample_opens_clean(browser: Any, sample: Path, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    page.write_bytes(html.render(trainlens.analyze([str(sample)]), html.Options()))
    for width, scheme in WAYS:
        with opened(browser, page, width=width, scheme=scheme) as seen:
            seen.drawn()
            is_clean(seen, f"{sample.name} at {width} pixels, {scheme}")


@pytest.mark.parametrize("name", ["faulty", "broken", "hostile", "fleet"])
def test_the_pages_of_made_up_runs_open_clean(browser: Any, name: str, tmp_path: Path) -> None:
    for width, scheme in WAYS:
        with opened(browser, written(tmp_path, name), width=width, scheme=scheme) as seen:
            seen.drawn()
            is_clean(seen, f"{name} at {width} pixels, {scheme}")


def test_a_million_points_open_with_all_their_charts(browser: Any, tmp_path: Path) -> None:
    rows, names = 40_000, [f"gauge_{at}" for at in range(21)]
    noise = np.random.default_rng(5).normal(size=(rows, 25)).round(4)
    with (tmp_path / "metrics.jsonl").open("w") as stream:
        for at, more in enumerate(noise.tolist()):
            row = {"step": at, "loss": 2 + 4 / (1 + at / 900) + more[0] / 30, "grad_norm": 1 + abs(more[1]), "lr": 1e-3}
            row |= {"step_time": 1 + abs(more[2]) / 50, **dict(zip(names, more[3:], strict=False))}
            stream.write(json.dumps(row) + "\n")
    diagnosis = trainlens.analyze([str(tmp_path)])
    assert diagnosis.summary.points >= 1_000_000
    page = tmp_path / "million.html"
    page.write_bytes(html.render(diagnosis, html.Options()))
    assert page.stat().st_size < 2_500_000
    with opened(browser, page) as seen:
        seen.drawn()
        assert int(seen.do("document.documentElement.dataset.drawn")) >= 16
        is_clean(seen, "a million points")


def test_words_stand_before_the_charts_are_drawn(browser: Any, faulty: Path) -> None:
    with opened(browser, faulty) as seen:
        seen.drawn()
        painted = seen.do("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        seen.do("window.late = performance.now()")
        assert 0 < painted < seen.do("window.late")


def test_charts_in_the_window_are_drawn_before_the_others_and_all_in_the_end(browser: Any, faulty: Path) -> None:
    order = """addEventListener("DOMContentLoaded", () => {
      window.order = [];
      new MutationObserver(told => told.forEach(one => order.push(one.target.id)))
        .observe(document.body, {childList: true, subtree: true});
    })"""
    with opened(browser, faulty, fragment="#distributed", before=order) as seen:
        seen.drawn()
        near = seen.do("document.querySelector('[data-ranks] .bk').id")
        drawn = [one for one in dict.fromkeys(seen.do("window.order")) if one.startswith("chart-")]
        assert drawn.index(near) < drawn.index("chart-1")
        assert len(drawn) == int(seen.do("document.documentElement.dataset.drawn"))


def test_paper_shows_no_controls_and_the_words_of_what_is_not_drawn(browser: Any, faulty: Path) -> None:
    with opened(browser, faulty) as seen:
        seen.drawn()
        tools = """() => {
          let seen = 0;
          const walk = node => node.querySelectorAll("*").forEach(one => {
            if (one.shadowRoot) walk(one.shadowRoot);
            seen += /Button/.test(one.className) && getComputedStyle(one).visibility !== "hidden";
          });
          document.querySelectorAll(".bk").forEach(walk);
          return seen;
        }"""
        assert seen.do(tools) > 0
        seen.page.emulate_media(media="print")
        bars = "[...document.querySelectorAll('.ctl, .bar')].filter(one => one.offsetWidth).length"
        assert seen.do(bars) == 0
        assert seen.do(tools) == 0
        seen.do("document.querySelector('.bk').replaceChildren()")
        told = "getComputedStyle(document.querySelector('.bk'), '::after').content"
        assert "steps" in seen.do(told)


def test_charts_zoom_together_and_a_finding_shows_its_stretch(browser: Any, faulty: Path) -> None:
    with opened(browser, faulty) as seen:
        seen.drawn()
        whole = seen.do(RANGES)
        chart = seen.page.locator("figure#curve-train-loss .bk")
        chart.focus()
        seen.page.keyboard.press("+")
        zoomed = [now for now, before in zip(seen.do(RANGES), whole, strict=True) if now != before]
        assert len(zoomed) >= 8
        assert all(now == zoomed[0] for now in zoomed)
        seen.page.keyboard.press("0")
        assert seen.do(RANGES) == whole
        link = seen.page.locator("article a[data-zoom]").first
        first, last = map(int, str(link.get_attribute("data-zoom")).split(","))
        link.press("Enter")
        start, end = next(now for now, before in zip(seen.do(RANGES), whole, strict=True) if now != before)
        assert start <= first < last <= end
        assert seen.do("location.hash").startswith("#curve-")


def test_dragging_over_a_chart_zooms_and_hovering_tells_the_exact_value(browser: Any, faulty: Path) -> None:
    with opened(browser, faulty) as seen:
        seen.drawn()
        chart = seen.page.locator("figure#curve-train-loss .bk")
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        middle = box["y"] + 120
        seen.page.mouse.move(box["x"] + 300, middle)
        for at in range(50):  # a busy machine takes its time
            seen.page.mouse.move(box["x"] + 300 + at % 5, middle)
            seen.page.wait_for_timeout(200)
            if told := seen.do(BOLD):
                break
        assert any("," in one for one in told), told
        before = seen.do(RANGES)
        seen.page.mouse.down()
        seen.page.mouse.move(box["x"] + 600, middle + 4, steps=5)
        seen.page.mouse.up()
        seen.page.wait_for_timeout(200)
        assert seen.do(RANGES) != before


def test_a_click_on_a_band_and_a_number_in_the_caption_lead_to_the_finding(browser: Any, faulty: Path) -> None:
    run = diagnoses.faulty().runs[0]
    ids = {finding.id for finding in run.findings}
    with opened(browser, faulty) as seen:
        seen.drawn()
        seen.page.locator("figure#curve-train-loss .fl-links a").first.click()
        assert seen.do("location.hash")[1:] in ids
        seen.do("location.hash = ''")
        place = seen.do("""() => {
          const figure = document.querySelector("figure#curve-train-loss"), box = figure.querySelector(".bk");
          const roots = JSON.parse(document.getElementById("charts").textContent).roots;
          const plots = Bokeh.documents[0].roots()[0].tags;
          const plot = plots.find(one => roots[one.id] === box.id), {start, end} = plot.x_range;
          box.scrollIntoView({block: "center"});
          const mark = plot.center.find(one => /^(band|thin)/.test(one.name));
          const frame = Bokeh.index.get_one_by_id(plot.id).frame;
          const at = ((mark.left ?? mark.location) - start) / (end - start) * plot.inner_width;
          const {left, top} = box.getBoundingClientRect();
          return [left + frame.bbox.left + at + 1, top + frame.bbox.top + 90];
        }""")
        seen.page.mouse.click(*place)
        assert seen.do("location.hash")[1:] in ids


def test_controls_change_axis_scale_and_smoothing_and_back(browser: Any, faulty: Path) -> None:
    scales = "() => Bokeh.documents[0].roots()[0].tags.map(one => one.y_scale.type)"
    with opened(browser, faulty) as seen:
        seen.drawn()
        whole, own = seen.do(RANGES), seen.do(scales)
        controls = seen.page.locator(".ctl.charts")
        controls.locator("[data-x=time]").click()
        assert seen.do(RANGES) != whole
        controls.locator("[data-x=step]").click()
        assert np.allclose(seen.do(RANGES), whole, rtol=1e-6, atol=1e-3)
        controls.locator("[data-y=log]").click()
        assert seen.do(scales).count("LogScale") > own.count("LogScale")
        controls.locator("[data-y=own]").click()
        assert seen.do(scales) == own
        usual = seen.do(SHOWN)
        controls.locator("[data-smooth]").click()
        assert controls.locator("[data-smooth]").get_attribute("aria-pressed") == "true"
        assert seen.do(SHOWN) > usual
        is_clean(seen, "after all controls")


def test_an_address_opens_the_page_at_its_finding(browser: Any, faulty: Path) -> None:
    name = next(finding.id for finding in diagnoses.faulty().runs[0].findings if finding.part_of)
    with opened(browser, faulty, fragment=f"#{name}") as seen:
        seen.drawn()
        seen.page.wait_for_timeout(300)
        assert 0 <= seen.do("name => document.getElementById(name).getBoundingClientRect().top", name) < 900


def test_nothing_from_a_log_runs(browser: Any, tmp_path: Path) -> None:
    with opened(browser, written(tmp_path, "hostile")) as seen:
        dialogs: list[str] = []

        def told(dialog: Any) -> None:
            dialogs.append(dialog.message)
            dialog.dismiss()

        seen.page.on("dialog", told)
        seen.drawn()
        assert dialogs == []
        assert seen.do("document.querySelectorAll('main img, main script').length") == 0


@pytest.mark.parametrize("name", ["faulty", "healthy", "fleet", "unjudged"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_fault_of_accessibility(browser: Any, name: str, scheme: str, tmp_path: Path) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    with opened(browser, written(tmp_path, name), scheme=scheme) as seen:
        seen.drawn()
        found = axe.Axe().run(seen.page).response["violations"]
    grave = [
        f"{one['id']}: {one['help']}: {[node['html'][:160] for node in one['nodes'][:3]]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert grave == []


@pytest.mark.parametrize("name", ["faulty", "broken", "healthy", "unjudged", "empty", "hostile", "fleet"])
def test_the_page_is_valid_html(name: str) -> None:
    html5lib = pytest.importorskip("html5lib", reason="html5lib is not installed")
    text = html.render(getattr(diagnoses, name)(), html.Options(charts=False)).decode()
    html5lib.HTMLParser(strict=True).parse(text)
