"""Wrong values of every key of every file are refused in words of ours, not of a library."""

import re
from contextlib import suppress

import pytest
from pydantic import ValidationError

from daskfc.checks import sentence_of
from daskfc.deploy.config.config import load_cluster
from daskfc.errors import InvalidInput
from daskfc.runs.pipeline.config import Pipeline
from daskfc.site.policy import Policy
from daskfc.stores.building.storage import Storage, load_storage
from daskfc.stores.dealing.config import SourceConfig

WRONG = [None, -1, 3.5, float("nan"), True, "", "none such", [], ["a", 1], {}, {"a": 1}, [[1]]]
FILES = {
    "pipeline": (Pipeline, {"method": "OmniFC"}),
    "storage": (Storage, {"clients": {"a": {"store": "a.zarr"}}}),
    "source": (SourceConfig, {"path": "a.csv"}),
    "policy": (Policy, {}),
}
LIBRARY = re.compile(
    r"input should|instance of|valid (dictionary|string|integer|number|list|tuple|boolean)"
    r"|Config\b|pydantic|unable to|\[type=",
    re.IGNORECASE,
)


@pytest.mark.parametrize("name", FILES)
def test_no_words_of_the_library(name):
    model, whole = FILES[name]
    told = 0
    for key in model.model_fields:
        for value in WRONG:
            try:
                model.model_validate({**whole, key: value})
            except ValidationError as error:
                sentence = sentence_of(error, "the file")
                assert not LIBRARY.search(sentence), (key, value, sentence)
                assert sentence.startswith("the file: "), sentence
                told += 1
    assert told > 3 * len(model.model_fields)


def test_no_words_of_the_library_for_a_cluster():
    for kind in ("local", "existing", "ssh", "none such", 3):
        for key in ("worker", "server", "deadline", "security", "expect", "parties", "scheduler"):
            for value in WRONG:
                content = {"cluster": kind, key: value}
                with suppress(InvalidInput):
                    load_cluster(content)
                    continue
                with pytest.raises(InvalidInput) as refused:
                    load_cluster(content)
                assert not LIBRARY.search(str(refused.value)), (content, str(refused.value))


def test_a_client_may_be_given_by_its_path_alone():
    given = load_storage({"clients": {"a": "stores/a.zarr", "b": {"store": "b.zarr"}}})
    assert given.clients["a"].store == "stores/a.zarr"
    with pytest.raises(InvalidInput, match=r"'clients.a': must be a mapping of keys and values"):
        load_storage({"clients": {"a": 3}})
    with pytest.raises(InvalidInput, match="letters"):
        load_storage({"clients": {"a": ""}})


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (1 << 20_000, "got a number of thousands of digits"),
        ([1 << 20_000], "got a number of thousands of digits"),
        ({1 << 20_000: 1}, "got a mapping with a number of thousands of digits"),
        ({"\n": 1}, r"got a mapping with '\n'. Correct"),
        ({"k" * 200: 1}, f"got a mapping with {'k' * 80}..."),
    ],
    ids=["number", "list", "key", "lines", "long"],
)
def test_what_is_shown_is_one_short_line(value, told):
    """Python refuses to write the first; it came up where the sentence of a refusal was made."""
    with pytest.raises(InvalidInput) as caught:
        Policy.of({"raw": value})
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
