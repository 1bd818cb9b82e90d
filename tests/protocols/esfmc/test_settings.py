"""Settings refuse what cannot be trained with; recipes follow the number of rows."""

import pytest

from daskfc.errors import InvalidInput
from daskfc.protocols.esfmc.settings import RECIPES, NetworkSettings, TrainingSettings, recipe


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        (NetworkSettings, {"hidden": [64]}, "'hidden' .* must be a tuple of ints"),
        (NetworkSettings, {"hidden": (0,)}, "'hidden' .* must be a tuple of ints"),
        (NetworkSettings, {"n_shared": 0}, "'n_shared' .* at least 1, or None"),
        (NetworkSettings, {"decode_from": "x"}, "'decode_from' .* one of"),
        (TrainingSettings, {"dropout": 1.0}, r"'dropout' .* in \[0, 0.95\]"),
        (TrainingSettings, {"dependence": "hsic"}, "'dependence' .* one of"),
        (TrainingSettings, {"temperature": -1e-9}, "'temperature' .* at least 0"),
        (TrainingSettings, {"batch_size": 1}, "'batch_size' .* at least 2"),
    ],
)
def test_wrong_settings_get_one_sentence(kind, change, words):
    with pytest.raises(InvalidInput, match=words):
        kind(**change)


def test_recipes_take_their_number_of_steps():
    for n, steps in ((2000, 400), (2500, 400), (600, 800), (90, 800)):
        training = recipe("robust", n).training
        n_batches = -(-n // training.batch_size)
        assert steps <= training.epochs * n_batches < steps + n_batches
    paper = recipe("paper", 2000)
    assert (paper.training.optimiser, paper.training.epochs, paper.rounds) == ("sgld", 300, 5)
    assert recipe("paper", 600).rounds == 15


def test_an_unknown_recipe_is_refused():
    assert set(RECIPES) == {"robust", "paper"}
    with pytest.raises(InvalidInput, match="no recipe is named 'best'; there are robust, paper"):
        recipe("best", 10)
