"""The HTML page: everything is told, everything is escaped, nothing is loaded, the same bytes each time."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import pytest

from tests.reports import diagnoses
from trainlens.diagnosis import Curve, Diagnosis, Finding
from trainlens.reports import html

ALL = ("faulty", "broken", "healthy", "unjudged", "empty", "hostile", "fleet")
_VOID = {"meta", "input", "br", "link", "img"}


class Page(HTMLParser):
    """A parsed page: tags with their attributes, visible text, scripts, elements left open."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[tuple[str | None, str]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append((self.tags[-1][1].get("type"), data))
        elif not self.open or self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def ids(self) -> list[str]:
        return [str(attributes["id"]) for _, attributes in self.tags if "id" in attributes]


@cache
def made(name: str) -> bytes:
    diagnosis: Diagnosis = getattr(diagnoses, name)()
    return html.render(diagnosis, html.Options())


@cache
def parsed(name: str) -> Page:
    return Page(made(name).decode())


def charts(page: Page) -> dict[str, object]:
    found: dict[str, object] = json.loads(next(text for kind, text in page.scripts if kind == "application/json"))
    return found


@pytest.mark.parametrize("name", ALL)
def test_every_page_is_well_formed_and_small(name: str) -> None:
    page = parsed(name)
    assert page.open == []
    assert max(Counter(page.ids()).values()) == 1
    assert len(made(name)) < 2_500_000


@pytest.mark.parametrize("name", ["faulty", "fleet", "hostile"])
def test_the_same_diagnosis_gives_the_same_bytes(name: str) -> None:
    assert html.render(getattr(diagnoses, name)(), html.Options()) == made(name)


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_loaded(name: str) -> None:
    page = parsed(name)
    loads = [
        (tag, value)
        for tag, attributes in page.tags
        for key, value in attributes.items()
        if key in ("src", "href", "action", "srcset", "data", "poster")
    ]
    assert [one for one in loads if not (one[1] or "").startswith("#")] == []
    assert not {"iframe", "link", "object", "embed", "base", "form", "img"} & {tag for tag, _ in page.tags}
    css = re.search(rb"<style>(.*?)</style>", made(name), re.S)
    assert css is not None
    assert b"url(" not in css[1]
    assert b"@import" not in css[1]


@pytest.mark.parametrize("name", ALL)
def test_the_policy_allows_the_scripts_of_the_page_and_no_other(name: str) -> None:
    page = parsed(name)
    policy = next(
        str(attributes["content"])
        for tag, attributes in page.tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert "unsafe-inline" not in policy.partition("style-src")[0]
    for kind, text in page.scripts:
        if kind is None:
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy
    assert [key for _, attributes in page.tags for key in attributes if key.startswith("on")] == []


@pytest.mark.parametrize("name", ALL)
def test_every_link_leads_somewhere(name: str) -> None:
    page = parsed(name)
    there = set(page.ids())
    linked = {str(attributes["href"])[1:] for _, attributes in page.tags if attributes.get("href")}
    assert linked - there == set()


def test_all_findings_causes_and_actions_are_told() -> None:
    run, text = diagnoses.faulty().runs[0], parsed("faulty").text
    for finding in run.findings:
        assert finding.part_of or finding.title in text
        assert finding.detector in text
        for told in (*finding.actions, *(cause.cause for cause in finding.causes)):
            assert told in text
    assert {finding.id for finding in run.findings} <= set(parsed("faulty").ids())
    cards = [one["id"] for tag, one in parsed("faulty").tags if tag == "article"]
    assert len(cards) == 3
    assert text.count("Includes") == 1
    assert "7.53 s, expected 7.1 s, limit 7.46 s (slowdown.rise, trainlens.toml)" in text.replace("\u00a0", " ")
    for check in run.checks:
        assert check.detector in text
        assert check.status == "clean" or re.sub(r"\W+", " ", check.reason) in re.sub(r"\W+", " ", text)
    for source in run.sources:
        assert source.path in text
    for fact in run.facts:
        assert fact.name in text


def test_parts_stand_in_their_order() -> None:
    text = made("faulty").decode()
    findings = [finding.id for finding in diagnoses.faulty().runs[0].findings if not finding.part_of]
    order = ["main", *findings, "overview", "efficiency", "resources", "stability", "distributed", "capability",
             "notjudged", "sources", "config", "ticket"]  # fmt: skip
    places = [text.index(f'id="{name}"') for name in order]
    assert places == sorted(places)


def test_a_healthy_run_has_no_findings_part() -> None:
    ids = parsed("healthy").ids()
    assert "findings" not in ids
    assert "overview" in ids
    assert "Healthy: nothing found in 24,000 steps" in parsed("healthy").text


def test_what_a_log_holds_is_text_and_nothing_else() -> None:
    page, text = parsed("hostile"), made("hostile").decode()
    assert len([kind for kind, _ in page.scripts if kind is None]) == 2
    assert "<script>alert" not in text
    assert "</script>alert" not in text
    assert "<b>{{" not in text
    assert diagnoses.EVIL in page.text
    assert not set(re.sub(r"\n", "", text)) & {"\x1b", "\u202e"}
    data = next(text for kind, text in page.scripts if kind == "application/json")
    assert "<" not in data


def test_tooltips_hold_no_markup_of_a_log() -> None:
    name = "act_mean/<img src=x onerror=alert(1)>@value$x"
    curve = Curve(name, None, "", "stability", (1, 2, 3), (1.0, 2.0, 3.0), (1.0, 2.0, 3.0), (1.0, 2.0, 3.0))
    run = replace(diagnoses.hostile().runs[0], curves=(curve,), findings=())
    data = json.dumps(charts(Page(html.render(diagnoses.told(run), html.Options()).decode())))
    assert "&lt;img src=x onerror=alert(1)&gt;&#64;value&#36;x" in data
    assert "<img" not in data


def test_every_chart_has_its_element_and_its_words() -> None:
    page = parsed("faulty")
    roots = charts(page)["roots"]
    assert isinstance(roots, dict)
    boxes = {str(one["id"]): one for _, one in page.tags if one.get("class") == "bk" and "id" in one}
    assert set(roots.values()) == set(boxes)
    assert len(boxes) == 17
    assert all(one["role"] == "group" and one["tabindex"] == "0" and one["aria-label"] for one in boxes.values())


@pytest.mark.parametrize("points", [1, 2])
def test_a_curve_of_one_point_is_drawn(points: int) -> None:
    steps, value = tuple(range(7, 7 + points)), (2.5,) * points
    curve = Curve("train/loss", None, "", "overview", steps, value, value, value, non_finite=(9,))
    run = replace(diagnoses.unjudged().runs[0], curves=(curve,), metrics=())
    text = json.dumps(charts(Page(html.render(diagnoses.told(run), html.Options()).decode())))
    assert text.count('"name": "GlyphRenderer"') == (3 if points == 1 else 2)  # line, × of the NaN, and a dot


def test_equal_findings_are_one_card() -> None:
    run = diagnoses.faulty().runs[0]
    spikes = tuple(
        Finding("slow-step", "warning", "step_time", at, at, f"Slow step at {at}", "A step took long.", id=f"s{at}")
        for at in range(1_000, 31_000, 1_000)
    )
    page = Page(html.render(diagnoses.told(replace(run, findings=spikes)), html.Options()).decode())
    assert [one["id"] for tag, one in page.tags if tag == "article"] == ["s1000"]
    assert {f"s{at}" for at in range(2_000, 31_000, 1_000)} <= set(page.ids())
    assert "And 29 times more, at steps 2,000 · 3,000" in page.text
    assert "and 5 more" in page.text


def test_several_runs_begin_with_a_table_worst_first() -> None:
    page = parsed("fleet")
    states = [attributes["data-s"] for tag, attributes in page.tags if tag == "tr" and "data-s" in attributes]
    assert states == ["error", "warning", "healthy"]
    assert {"r1-top", "r2-top", "r3-top", f"r2-{diagnoses.faulty().runs[0].findings[0].id}", "r1-overview"} <= set(
        page.ids()
    )


def test_many_runs_stay_small_and_tell_the_healthy_in_the_table_alone() -> None:
    page = html.render(diagnoses.fleet(200), html.Options())
    text = page.decode()
    assert len(page) < 2_500_000
    assert text.count("<tr data-s=") == 200
    assert text.count('class="run"') == 2


def test_a_page_that_would_be_too_large_has_fewer_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MOST_BYTES", len(made("fleet")) - 30_000)
    page = html.render(diagnoses.fleet(), html.Options())
    assert len(page) <= len(made("fleet")) - 30_000
    drawn, before = (charts(Page(one.decode()))["roots"] for one in (page, made("fleet")))
    assert isinstance(drawn, dict)
    assert isinstance(before, dict)
    assert 0 < len(drawn) < len(before)
    assert set(drawn.values()) < set(before.values())  # those told first are kept


def test_without_charts_there_is_no_script_but_the_own() -> None:
    page = html.render(diagnoses.faulty(), html.Options(charts=False))
    assert len(page) < 150_000
    assert len(Page(page.decode()).scripts) == 1
    assert b"Steps 6 % slower since 51,300" in page
