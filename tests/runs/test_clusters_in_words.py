"""Sentences about clusters: from released figures alone, and of what is far from the mean."""

import numpy as np
import pytest

from daskfc.federation import Ledger
from daskfc.runs.report.clusters_in_words import clusters_in_words, quality_in_words
from daskfc.secure.profiles import ClusterProfiles

SIZES = {"0": 60, "1": 40}
BY_CLIENT = {"a": {"0": 50, "1": 5}, "b": {"0": 10, "1": 35}}
QUALITY = {"sizes": SIZES, "by_client": BY_CLIENT, "sites": 0.3, "silhouettes": {"1": 0.25}}


def profiles(means, stds, columns, **more):
    counts = np.tile([[60], [40]], len(columns))
    sizes = np.array([60, 40])
    means, stds = np.array(means, dtype=float), np.array(stds, dtype=float)
    made = ClusterProfiles(columns, (0, 1), sizes, counts, means, stds, {}, Ledger([]), **more)
    return made.as_dict()


def sentences(**summary):
    told = clusters_in_words({"quality": QUALITY, "n_samples": 100, **summary})
    return [one.sentence for one in told]


def test_features_far_from_the_mean_are_named_and_others_are_not():
    found = profiles([[70, 20.0], [50, 20.1]], [[5, 3], [5, 3]], ("age", "bmi"))
    first, second = sentences(profiles=found)
    assert first == "Higher age (70, overall 62); mostly at a (83%, of all samples 55%)."
    assert second == "Lower age (50, overall 62); mostly at b (88%, of all samples 45%)."


def test_at_most_three_features_are_named_and_the_furthest_come_first():
    columns = ("a", "b", "c", "d")
    found = profiles([[1, 1, 1, 1], [-1, -1, -1, -1]], [[3, 0.5, 2, 1]] * 2, columns)
    first = sentences(profiles=found)[0].partition(";")[0]
    phrases = [phrase for phrase in first.split(", ") if not phrase.startswith("overall")]
    assert [phrase.split()[1] for phrase in phrases] == ["b", "d"]
    off = np.abs(found["standardised"][0])
    assert [name for name, z in zip(columns, off, strict=True) if z >= 0.5] == ["b", "d"]


def test_a_column_of_zero_and_one_is_a_share_and_words_have_theirs():
    female = [0.9, 0.2]
    stds = [[np.sqrt(p * (1 - p)), np.nan] for p in female]
    shares = np.array([[0.75, 0.25, 0.0], [0.125, 0.875, 0.0]])
    found = profiles(
        [[0.9, np.nan], [0.2, np.nan]], stds, ("female", "smokes"),
        categories={"smokes": ("no", "yes")}, shares={"smokes": shares},
    )  # fmt: skip
    first = sentences(profiles=found)[0]
    assert "more often female = 1 (90%, overall 62%)" in first.replace("More", "more")
    assert "more often smokes = no (75%, overall 50%)" in first.replace("More", "more")


def test_a_share_is_told_only_of_zero_and_one():
    """Ages of 0 to 1 are no shares, although they lie between."""
    found = profiles([[0.9], [0.2]], [[0.05], [0.05]], ("years",))
    assert sentences(profiles=found)[0].startswith("Higher years (0.9, overall 0.62)")


def test_very_small_values_are_no_shares():
    """Their squares are as near to 0 as those of a column that is 0 throughout."""
    found = profiles([[2e-10], [9e-10]], [[1e-10], [1e-10]], ("mol",))
    assert sentences(profiles=found)[0].startswith("Lower mol (2e-10, overall 4.8e-10)")


def test_nothing_is_said_of_what_is_withheld():
    found = profiles([[70.0], [50.0]], [[5.0], [5.0]], ("age",))
    why = "it has fewer than 5 samples"
    kept = {key: found[key][:1] for key in ("means", "stds", "standardised")}
    first, second = sentences(profiles={**found, **kept, "clusters": [0], "withheld": {"1": why}})
    assert "age" in first
    assert second.startswith(f"Not described: {why}; mostly at b")
    hidden = {**found, "means": [[None], [50.0]], "standardised": [[None], [None]]}
    assert "age" not in "".join(sentences(profiles=hidden))


def test_without_profiles_only_sites_are_named_and_only_where_they_may_be():
    assert sentences()[1] == "Mostly at b (88%, of all samples 45%)."
    shared = {**QUALITY, "sites": None}  # all sites have the same samples
    assert sentences(quality=shared) == ["", ""]
    even = {"a": {"0": 30, "1": 20}, "b": {"0": 30, "1": 20}}
    assert sentences(quality={**QUALITY, "by_client": even}) == ["", ""]


def test_a_cluster_near_the_mean_is_said_to_be_there():
    found = profiles([[50.1], [50.0]], [[5.0], [5.0]], ("age",))
    assert sentences(profiles=found)[0].startswith("Near the mean of all samples in every feature")


def test_sizes_shares_and_silhouettes_are_those_of_the_summary():
    told = clusters_in_words({"quality": QUALITY, "n_samples": 125})
    assert [(one.number, one.size, one.share, one.silhouette) for one in told] == [
        (0, 60, 60 / 125, None), (1, 40, 40 / 125, 0.25),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("key", "bounds", "words"),
    [
        ("silhouette", (0.7, 0.5, 0.25), ("strongly", "reasonably", "weakly", "hardly")),
        ("stability", (0.9, 0.8, 0.65), ("excellent", "good", "moderate", "poor")),
        ("sites", (0.75, 0.4, 0.1), (
            "are nearly sites", "follow sites for a good part", "follow sites a little",
            "have next to nothing to do with sites",
        )),
    ],
)  # fmt: skip
def test_words_of_quality_follow_the_numbers(key, bounds, words):
    for bound, word, below in zip(bounds, words, words[1:], strict=False):
        assert quality_in_words({key: bound, "noise": 0.0}) == {key: word}
        assert quality_in_words({key: bound - 1e-9, "noise": 0.0}) == {key: below}
    assert quality_in_words({key: -0.2, "noise": 0.0}) == {key: words[-1]}
    assert quality_in_words({key: None}) == {}
