"""The report of a real run: its numbers are those of summary.json, and it names no machine."""

import re
from html import unescape
from itertools import pairwise

import pytest

from daskfc.examples.folder import write_example
from daskfc.runs import run
from daskfc.runs.report.report import without_places

pytestmark = pytest.mark.slow

_TITLE = "Patients of three hospitals"


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hospitals")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_example("hospitals", folder)
        found = run(
            "pipelines/hospitals.yaml",
            storage="storage/hospitals.yaml",
            runs_dir=folder / "runs",
            name="night",
        )
    found.write_report(title=_TITLE)
    found.write_card(purpose="To plan dialysis places")
    return found


@pytest.fixture(scope="module")
def page(hospitals):
    return (hospitals.folder / "report.html").read_text(encoding="utf-8")


def text_of(html):
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html)))


def first_of(page):
    return text_of(page.partition('<section class="appendix">')[0].partition("<body>")[2])


def test_the_first_part_has_the_numbers_of_the_summary(hospitals, page):
    summary, told = hospitals.summary, first_of(page)
    quality = summary["quality"]
    assert told.split("Run ")[0].strip().startswith(_TITLE)
    assert f"{summary['n_samples']} samples of {summary['n_clients']} sites" in told
    for cluster, size in quality["sizes"].items():
        share = 100 * size / summary["n_samples"]
        assert f"Cluster {cluster} {size} samples, {share:.1f} %" in told
        assert f"Silhouette {quality['silhouettes'][cluster]:.3f}." in told
    assert f"silhouette {quality['silhouette']:.3f}" in told
    assert f"information {quality['sites']:.3f}" in told
    for name, scores in summary["metrics"].items():
        assert all(f"{one['mean']:.4f}" in told for one in scores.values()), name


def test_sentences_are_of_the_released_profile(hospitals, page):
    profiles, told = hospitals.summary["profiles"], first_of(page)
    ways = "Higher|higher|Lower|lower"
    phrases = re.findall(rf"({ways}) (\w+) \(([\d.,]+), overall ([\d.,]+)\)", told)
    assert len(phrases) >= 6
    means = {name: [row[i] for row in profiles["means"]]
             for i, name in enumerate(profiles["columns"])}  # fmt: skip
    for way, name, own, whole in phrases:
        overall = profiles["overall_mean"][profiles["columns"].index(name)]
        assert float(whole) == pytest.approx(overall, rel=5e-3)
        assert min(abs(float(own) / mean - 1) for mean in means[name]) < 5e-3
        assert (float(own) > float(whole)) is (way.lower() == "higher")


def test_no_page_names_a_place_of_the_machine_or_asks_elsewhere(hospitals, page):
    card = (hospitals.folder / "card.html").read_text(encoding="utf-8")
    for text in (page, card):
        assert str(hospitals.folder.parents[1]) not in text
        for word in ("file:", "http", "src=", "<script", "url("):
            assert word not in text, word


def test_one_colour_is_one_thing(page):
    """Clusters, sites and all else share no class of colour, and no two classes a colour."""
    style = page.partition("<style>")[2].partition("</style>")[0]
    for theme in style.split("prefers-color-scheme: dark"):
        colours = re.findall(r"--([ctg]\d): (#\w{6})", theme)
        assert len({colour for _, colour in colours}) == len(colours) == 25
    legends = re.findall(r'<span class="swatch (?:dot )?([ctg])\d"></span>([\w -]+)', page)
    by_family = {}
    for family, name in legends:
        by_family.setdefault(family, set()).add(name)
    assert all(name.startswith("cluster") for name in by_family["c"])
    assert {"hospital-a", "hospital-b", "hospital-c"} == by_family["t"]
    assert not by_family["g"] & (by_family["c"] | by_family["t"])


def test_words_lead_to_their_meaning(page):
    targets = set(re.findall(r'id="([^"]+)"', page))
    links = re.findall(r'href="#([^"]+)"', page)
    assert {"term-ari", "term-silhouette", "term-nmi"} <= set(links)
    assert set(links) <= targets
    assert len(re.findall(r'id="', page)) == len(targets)  # no id twice


def test_a_dot_tells_its_cluster_and_what_sites_have_of_it(hospitals, page):
    quality = hospitals.summary["quality"]
    for cluster, size in quality["sizes"].items():
        own = {name: clusters[cluster] for name, clusters in quality["by_client"].items()}
        told = f"<title>cluster {cluster}: {size} samples; "
        (line,) = [part for part in page.split("</title>") if told in part]
        counts = re.findall(r"(\d+) at ([\w-]+)", line.partition(told)[2])
        assert {name: int(count) for count, name in counts} == own
        assert all(int(a) >= int(b) for (a, _), (b, _) in pairwise(counts))


@pytest.mark.parametrize(
    ("told", "left"),
    [
        ("/srv/data/a.zarr", "…/a.zarr"), ("file:///home/me/a.zarr", "…/a.zarr"),
        ("s3://bucket/b.zarr?key=secret", "…/b.zarr"), ("tls://10.1.2.3:8786", "…"),
        ("C:\\Users\\me\\a.csv", "…/a.csv"), ("~/a.csv", "…/a.csv"),
        ("data/a.csv", "data/a.csv"), ("mg/dl", "mg/dl"), ("client → server", "client → server"),
        ("it broke in /tmp/x/run.json: no space", "it broke in …/run.json: no space"),
    ],
)  # fmt: skip
def test_places_are_cut_down_to_their_last_part(told, left):
    assert without_places({"a": [told]}) == {"a": [left]}
