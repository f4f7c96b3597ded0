"""The rules of the house that a machine can keep: floors, one file one thing, pages, sources of thresholds, sizes."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import trainlens
from trainlens import plugins
from trainlens.plugins import Seam

ROOT = Path(trainlens.__file__).parent
REPOSITORY = ROOT.parent
SAMPLES = REPOSITORY / "sample_logs"
SEAMS: tuple[Seam, ...] = ("parsers", "detectors", "causes", "reports")
FILES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))
LONGEST = 300
HEADINGS = ("Why it matters", "How it is found", "What to do", "When it is wrong")

# A room is a file or a folder; it imports from lower floors and from itself.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("model", "diagnosis", "signals", "citations", "errors", "engines", "figures", "context", "later"),
    ("plugins", "sources", "settings", "catalog"),
    (*SEAMS, "store"),
    ("analysis", "reading", "digest", "explanation", "scores", "watch", "compare", "pages", "inspection", "acceptance"),
    ("cli", "delivery", "flags", "exits"),
    ("__main__", "__init__"),
)
# Rooms of one floor that may use each other; wings and the store may not.
SISTERS = {0, 1, 3, 4}
# What is dear to import, and where it may be at all: the store and parsers read with it, reports draw with it.
HEAVY = {
    "polars": ("parsers/", "store/"),
    "pyarrow": ("parsers/", "store/"),
    "rich": ("reports/", "cli", "delivery"),
    "matplotlib": ("reports/",),
    "bokeh": ("reports/",),
}


def imports(file: str) -> Iterator[tuple[str, bool]]:
    """The modules that a file imports, and whether it does so as soon as it is imported itself."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    for child in tree.body:
        late = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
        inside = isinstance(child, ast.FunctionDef | ast.ClassDef)
        for node in ast.walk(child):
            if isinstance(node, ast.Import):
                yield from ((alias.name, not (late or inside)) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                at_once = not (late or inside)
                yield node.module, at_once
                if node.module == "trainlens":
                    yield from ((f"trainlens.{alias.name}", at_once) for alias in node.names)


def room(path: str) -> str:
    """The room of a file or module below trainlens: "parsers", "store", ..."""
    return path.removesuffix(".py").replace("/", ".").split(".")[0]


def floor(name: str) -> int | None:
    for number, rooms in enumerate(FLOORS):
        if name in rooms:
            return number
    return None


def rooms_used(file: str) -> set[str]:
    return {
        room(module.removeprefix("trainlens."))
        for module, _ in imports(file)
        if module.startswith("trainlens.") and floor(room(module.removeprefix("trainlens."))) is not None
    }


@pytest.mark.parametrize("file", FILES)
def test_every_file_stands_on_a_floor(file: str) -> None:
    assert floor(room(file)) is not None, f"{file}: say in FLOORS where it stands"


@pytest.mark.parametrize("file", FILES)
def test_imports_go_down(file: str) -> None:
    own = floor(room(file))
    assert own is not None
    for used in rooms_used(file) - {room(file)}:
        level = floor(used)
        assert level is not None
        sisters = own in SISTERS
        assert level < own or (level == own and sisters), f"{file} imports {used}"


@pytest.mark.parametrize("file", FILES)
def test_dear_libraries_are_imported_where_they_may_be(file: str) -> None:
    for module, at_once in imports(file):
        library = module.split(".")[0]
        if library in HEAVY:
            assert file.startswith(HEAVY[library]), f"{file} imports {library}"
            drawing = library in ("matplotlib", "bokeh", "rich")
            assert not (at_once and drawing and not file.startswith("reports/")), f"{file} imports {library} at once"


@pytest.mark.parametrize("file", FILES)
def test_files_are_short(file: str) -> None:
    assert len((ROOT / file).read_text(encoding="utf-8").splitlines()) < LONGEST


PLUGINS = [
    (seam, found.name)
    for seam in SEAMS
    for found in pkgutil.iter_modules([str(ROOT / seam)])
    if not found.name.startswith("_")
]


@pytest.mark.parametrize(("seam", "name"), PLUGINS)
def test_every_plugin_has_its_test_and_its_page(seam: Seam, name: str) -> None:
    module = plugins.load(seam, name)
    assert (REPOSITORY / "tests" / seam / f"test_{name}.py").is_file()
    page = plugins.page(module)
    assert len(page.splitlines()[0]) > 10
    if seam == "detectors":
        lines = [line.strip() for line in page.splitlines()]
        assert [heading for heading in lines if heading in HEADINGS] == list(HEADINGS)


@pytest.mark.parametrize("name", [name for seam, name in PLUGINS if seam == "detectors"])
def test_every_threshold_says_what_it_means_and_where_it_comes_from(name: str) -> None:
    for threshold in plugins.thresholds(plugins.load("detectors", name).Options):
        assert threshold.meaning, threshold.name
        assert threshold.source.text, threshold.name


def test_every_citation_has_a_text_and_a_secure_link() -> None:
    citations = importlib.import_module("trainlens.citations")
    for value in vars(citations).values():
        if isinstance(value, citations.Citation):
            assert value.text
            assert not value.link or value.link.startswith("https://")


def strings(value: object) -> Iterator[str]:
    """All texts in a table of TOML, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def test_every_detector_is_named_by_a_sample() -> None:
    expectations = sorted(SAMPLES.glob("*/expected.toml"))
    if not expectations:
        pytest.skip("sample_logs is empty")
    named = {text for path in expectations for text in strings(tomllib.loads(path.read_text(encoding="utf-8")))}
    assert set(plugins.names("detectors")) - named == set()
