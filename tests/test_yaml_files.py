"""The three kinds of YAML files are read alike, whatever is wrong with them."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfc.deploy import load_cluster
from daskfc.errors import InvalidInput
from daskfc.runs import load_pipeline
from daskfc.stores import load_storage
from daskfc.yaml_files import read_mapping, read_yaml

# how each is loaded, what is right, the same with a key twice, and with one twice further down
KINDS = {
    "pipeline": (
        load_pipeline,
        "method: OmniFC\nparams: {n_clusters: 3}\n",
        "method: OmniFC\nseeds: [0]\nseeds: [1]\n",
        "method: OmniFC\nparams:\n  clusterer:\n    n: 1\n    n: 1\n",
    ),
    "storage": (
        load_storage,
        "source: {dataset: iris}\npartition: {scheme: iid, clients: 2}\n",
        "layout: {}\nclients: [a]\nclients: [b]\n",
        "clients:\n  a: {store: x}\n  b:\n    store: x\n    store: y\n",
    ),
    "cluster": (
        load_cluster,
        "cluster: local\ndeadline: 60s\n",
        "cluster: local\ndeadline: 60s\ndeadline: 5s\n",
        "cluster: local\ndask:\n  distributed:\n    comm: {}\n    comm: {}\n",
    ),
}
BAD = {
    "empty": (b"", "must be a mapping with the key.*; got an empty file"),
    "comment": (b"# nothing\n", "must be a mapping with the key.*; got an empty file"),
    "list": (b"- a\n", "must be a mapping with the key.*; got list"),
    "text": (b"a\n", "must be a mapping with the key.*; got str"),
    "open": (b"a: [1\n", "line 2, column 1: not valid YAML: .*Correct that line"),
    "tab": (b"a:\n\tb: 1\n", r"line 2, column 1: not valid YAML: .*character '\\t' that cannot"),
    "control": (b"a: \x07\n", "not valid YAML: .*Correct the file"),
    "latin": (b"# \xfc\n", "must be text in UTF-8; got another byte at 2. Save it as UTF-8"),
    "object": (b"a: !!python/name:os.system\n", "line 1, .*could not determine a constructor"),
    "date": (b"a: 2001-99-99\n", r"a value does not fit its type \(ValueError\)"),
    "two documents": (b"a: 1\n---\na: 1\n", "line 2, .*not valid YAML"),
    "list as key": (b"? [a]\n: 1\n", "line 1, .*not valid YAML: .*unhashable"),
    "two merges": (b"a: &a {b: 1}\nc: {<<: *a, <<: *a}\n", "'<<' is given twice.*Merge a list"),
    "itself": (b"a: &a [*a]\n", "line 1, .*or one that holds itself. Write out what is meant"),
    "merged again and again": (
        b"a: &a {k: v}\n"
        + b"".join(
            b"%c: &%c {<<: [%s]}\n" % (i, i, b",".join(9 * [b"*%c" % (i - 1)]))
            for i in range(ord("b"), ord("l"))
        ),
        "aliases make more than 1000000 values",
    ),
    "deep": (b"[" * 1_000, r"not valid YAML: .*\(RecursionError\)"),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def refused(kind, path):
    with pytest.raises(InvalidInput) as caught:
        KINDS[kind][0](path)
    sentence = str(caught.value)
    assert sentence.startswith(str(path))
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


def test_right_files_load(kind, tmp_path):
    load, right, *_ = KINDS[kind]
    path = tmp_path / "file.yaml"
    path.write_text(right, encoding="utf-8-sig")
    assert load(path) == load(str(path))
    assert load(path).model_dump() == load(read_yaml(right, "the text")).model_dump()


@pytest.mark.parametrize(("place", "line", "first"), [(2, 3, 2), (3, 5, 4)], ids=["top", "below"])
def test_a_key_given_twice_is_refused_with_both_lines(kind, place, line, first, tmp_path):
    path = tmp_path / "twice.yaml"
    path.write_text(KINDS[kind][place])
    sentence = refused(kind, path)
    assert f"{path}, line {line}, column" in sentence
    assert f"is given twice, first in line {first}. Keep one of the two." in sentence


@pytest.mark.parametrize("bad", BAD)
def test_bad_files_are_one_sentence(kind, bad, tmp_path):
    content, words = BAD[bad]
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=words):
        KINDS[kind][0](path)
    refused(kind, path)


def test_files_that_cannot_be_read_are_one_sentence(kind, tmp_path):
    missing = f"there is no such file. Correct the path of the {kind} file."
    assert missing in refused(kind, tmp_path / "none.yaml")
    assert f"the {kind} file cannot be read (IsADirectoryError)" in refused(kind, tmp_path)
    assert f"the {kind} file cannot be read (ValueError)" in refused(kind, f"{tmp_path}/\0")


def test_merge_keys_and_anchors():
    text = """
    deep: {deeper: {base: &base {<<: &first {a: 1, b: 2}, a: 3}}}
    over: {<<: *base, b: 4}
    both: {<<: [*first, *base]}
    same: *base
    """
    read = read_yaml(text, "an example")
    assert read["over"] == {"a": 3, "b": 4}
    assert read["both"] == {"a": 1, "b": 2}
    assert read["same"] == read["deep"]["deeper"]["base"] == {"a": 3, "b": 2}


@pytest.mark.parametrize("pair", ["a: 1, 'a': 2", "1: 1, 0x1: 2", "1: 1, true: 2", "~: 1, null: 2"])
def test_keys_are_the_same_that_python_takes_for_the_same(pair):
    with pytest.raises(InvalidInput, match="given twice"):
        read_yaml(f"{{{pair}}}", "an example")


@pytest.mark.parametrize(
    ("text", "value"), [("1e-4", 1e-4), ("-2E3", -2e3), (".5e1", 5.0), ("1e", "1e"), ("12", 12)]
)
def test_numbers_are_those_of_yaml_1_2(text, value):
    read = read_yaml(text, "an example")
    assert (type(read), read) == (type(value), value)


@given(st.text("ab:{}[],&*!<-?'\"#|>% \t\n1.e~", max_size=30))
def test_no_text_raises_anything_else(text):
    with suppress(InvalidInput):
        read_yaml(text, "an example")


@pytest.mark.parametrize(
    ("text", "wanted", "found"),
    [
        ("method: OmniFC\nparams: {}", "storage", "pipeline"),
        ("source: {dataset: iris}", "pipeline", "storage"),
        ("clients: [a, b]", "cluster", "storage"),
        ("cluster: local", "storage", "cluster"),
    ],
)
def test_a_file_of_another_kind_is_called_so(tmp_path, text, wanted, found):
    path = tmp_path / "f.yaml"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=f"this is a {found} file, and a {wanted} file is"):
        read_mapping(path, wanted, keys="any")
    assert read_mapping(path, found, keys="any")


def test_a_file_with_keys_of_its_own_is_read(tmp_path):
    path = tmp_path / "f.yaml"
    path.write_text("method: OmniFC\nsource: {}")  # refused later, by its keys
    assert read_mapping(path, "pipeline", keys="any")
