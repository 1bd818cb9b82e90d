"""YAML files of all four kinds: whatever they hold, they are read or refused in one sentence."""

import functools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfc.checks import checked
from daskfc.deploy import load_cluster
from daskfc.deploy.certificates.party_list import FederationList, read_federation
from daskfc.runs import load_pipeline
from daskfc.site import Policy
from daskfc.stores import load_storage
from daskfc.yaml_files import read_yaml
from tests.attacks.attempts import ROOT
from tests.fuzz.changes import SMALL, changed_bytes, changed_tree
from tests.fuzz.watch import answer, everything_loaded, fuzzed

pytestmark = pytest.mark.slow

# Keys that the template of a policy leaves out.
POLICY = """
methods:
  OmniFC: {n_clusters: {min: 2, max: 20}}
  FedSC: {noise: required, noise.epsilon: {max: 1}, noise.delta: {max: 1e-5}, allow_few: false}
submitters: [alice, bob]
hours: {days: mon-fri, times: "20:00-06:00", zone: Europe/Berlin}
runs: {at_most: 10, per: day}
columns: [age, bmi, smoking]
stores: [/srv/new]
samples: {at_least: 100}
maskers: {at_least: 3, threshold: 2/3}
upload: 2 GB
budget: {epsilon: 3, delta: 1e-5}
packages: ["our-methods>=1.2,<2"]
"""
LOADERS = {
    "pipeline": (load_pipeline, sorted(ROOT.glob("pipelines/*.yaml"))),
    "storage": (load_storage, sorted(ROOT.glob("storage/*.yaml"))),
    "cluster": (load_cluster, sorted(ROOT.glob("cluster-configs/*.yaml"))),
    "policy": (Policy.load, sorted(ROOT.glob("daskfc/site/template.yaml"))),
    "federation": (read_federation, sorted(ROOT.glob("daskfc/deploy/certificates/*/*.yaml"))),
}
LOADED = {"pipeline": load_pipeline, "storage": load_storage, "cluster": load_cluster,
          "policy": Policy.of,
          "federation": lambda tree: checked(FederationList, tree, "list")}  # fmt: skip


@functools.cache
def texts(kind):
    everything_loaded()
    found = [path.read_bytes() for path in LOADERS[kind][1]]
    return [*found, POLICY.encode()] if kind == "policy" else found


@functools.cache
def trees(kind):
    return [tree for text in texts(kind) if (tree := read_yaml(text.decode(), kind))]


@pytest.mark.parametrize("kind", LOADERS)
def test_files(kind, tmp_path):
    path = tmp_path / "file.yaml"

    @fuzzed(150)
    @given(changed_bytes(texts(kind)))
    def tried(data):
        path.write_bytes(data)
        answer(lambda: LOADERS[kind][0](path))

    tried()


@pytest.mark.parametrize("kind", LOADERS)
def test_keys_and_values(kind):
    """What is taken says the same of itself, and is taken again."""

    @fuzzed(250)
    @given(changed_tree(trees(kind)))
    def tried(tree):
        found = answer(lambda: LOADED[kind](tree))
        if found is not None:
            seeds = re.compile(r"seeds=[^)]*")  # which may be drawn anew
            assert seeds.sub("", repr(LOADED[kind](tree))) == seeds.sub("", repr(found))

    tried()


def _tag(name):
    return st.builds(lambda value: f"a: !!python/{name} {value}", SMALL)


TAGS = (
    "name:os.system", "object:os._wrap_close", "object/apply:os.system", "module:antigravity",
    "object/new:subprocess.Popen", "tuple", "bytes", "long", "dict",
)  # fmt: skip


@fuzzed(200)
@given(st.one_of(*map(_tag, TAGS)) | st.text("ab:{}[],&*!<-?'\"#|>% \t\n1.e~", max_size=60))
def test_no_tag_makes_an_object(text):
    told = answer(lambda: read_yaml(text, "an example"))
    assert "python/" not in text or told is None or not text.startswith("a: !!python/")


def _again(open_, close):
    """Twelve lines, each of which repeats the one before it nine times."""
    lines = [
        f"b{i}: &b{i} {open_}{', '.join(9 * [f'*b{i - 1}' if i else '*a'])}{close}\n"
        for i in range(12)
    ]
    return "a: &a {k: v}\n" + "".join(lines)


SMALL_TEXTS = {
    "aliases": _again("[", "]"),
    "merges": _again("{<<: [", "]}"),
    "digits": "a: " + "9" * 20_000,
    "bits": "a: 0b" + "1" * 100_000,
    "sixties": "a: 1" + ":59" * 20_000,
    "keys": "? " * 5_000,
    "itself": "a: &a [*a]",
    "merges itself": "a: &a {<<: *a}",
    "binary": "a: !!binary " + "A" * 100_000,
}
PLACES = {
    "pipeline": "params",
    "storage": "source",
    "cluster": "dask",
    "policy": "methods",
    "federation": "clients",
}


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize("what", SMALL_TEXTS)
def test_small_texts_do_not_take_long(what, kind, tmp_path):
    path = tmp_path / "file.yaml"
    text = SMALL_TEXTS[what]
    path.write_text(text)
    assert answer(lambda: LOADERS[kind][0](path)) is None
    below = "".join(f"  {line}\n" for line in text.splitlines())
    path.write_text(f"{PLACES[kind]}:\n{below}")
    answer(lambda: LOADERS[kind][0](path))
