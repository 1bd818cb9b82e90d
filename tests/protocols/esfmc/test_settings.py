"""Settings refuse what cannot be trained with; recipes follow the number of rows."""

import pytest

from daskfc.errors import InvalidInput
from daskfc.federation.methods.parameters import picked
from daskfc.protocols import ESFMC
from daskfc.protocols.esfmc.party import ClientSettings
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


def test_heads_that_label_others_than_they_learn_from_few_rows_a_column_have_dropout():
    def dropout(name, n, n_columns, **options):
        return recipe(name, n, n_columns=n_columns, **options).training.dropout

    assert dropout("robust", 2000, 1001, complete=False) == 0.5
    assert dropout("robust", 2000, 1000, complete=False) == 0.0
    assert dropout("robust", 2000, 1001) == 0.0
    assert dropout("paper", 2000, 1001, complete=False) == 0.0  # the paper has none
    assert recipe("robust", 2000, n_columns=1001, complete=False).training.epochs == 100


def settings(**params):
    model = ESFMC(10, **params)
    return picked(ClientSettings, model, aligned=model.incomplete == "align", complete=False)


def test_parameters_come_before_the_recipe():
    plain, own = settings().of(2000, 9), settings(
        latent_dim=7, shared_dim=3, separate_encoders=True, local_epochs=5, pretraining_epochs=6,
        alpha=0.0, dropout=0.1, loss_weights={"dependence": 2.0, "label": 0.5},
    ).of(2000, 9)  # fmt: skip
    assert (plain.network.n_latent, plain.network.n_shared) == (10, None)
    network, training = own.network, own.training
    assert (network.n_latent, network.n_shared, network.separate_encoders) == (7, 3, True)
    assert (training.epochs, training.pretraining_epochs) == (5, 6)
    assert (training.temperature, training.dropout) == (0.0, 0.1)
    assert (training.dependence_weight, training.label_weight) == (2.0, 0.5)
    assert training.reconstruction_weight == plain.training.reconstruction_weight == 1.0


def test_the_alignment_loss_counts_a_tenth_unless_it_is_given():
    assert settings(incomplete="align").of(100, 9).training.alignment_weight == 0.1
    assert settings(incomplete="align", recipe="paper").of(100, 9).training.alignment_weight == 1.0
    own = settings(incomplete="align", loss_weights={"alignment": 0.0}).of(100, 9)
    assert own.training.alignment_weight == 0.0


@pytest.mark.parametrize("weights", [{"labels": 1.0}, {"label": -1.0}, {"label": None}, [1.0]])
def test_weights_of_unknown_terms_and_below_0_are_refused(weights):
    with pytest.raises(InvalidInput, match=r"'loss_weights' .* reconstruction, label, dependence"):
        ESFMC(10, loss_weights=weights).check()


def test_an_unknown_recipe_is_refused():
    assert set(RECIPES) == {"robust", "paper"}
    with pytest.raises(InvalidInput, match="no recipe is named 'best'; there are robust, paper"):
        recipe("best", 10)
