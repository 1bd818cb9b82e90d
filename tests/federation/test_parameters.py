"""Parameters of methods: declared as fields, given like those of scikit-learn's estimators."""

import inspect
import re
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from sklearn.base import BaseEstimator, clone

from daskfc.checks import integer, one_of, real
from daskfc.federation.methods.parameters import constraints_of, make_init, param, picked

AT_LEAST_1, ANY, SEED = integer(low=1), real(), integer(low=0)


def kinds():
    """Classes with parameters, as they are made; a test makes its own."""

    class Base(BaseEstimator):
        random_state: int = param(SEED, default=0)

    class Means(Base):
        n_clusters: int = param(AT_LEAST_1, kw_only=False)
        rounds: int = param(AT_LEAST_1, kw_only=False, default=5)
        tolerance: float = param(ANY)
        start: str = param(one_of("random", "far"), default="far")
        note = "no parameter"

    class Medians(Means):
        """Changes a default, adds a parameter."""

        start: str = param(one_of("near"), default="near")
        extra: int = param(AT_LEAST_1, default=9)

    class Same(Means):
        pass

    for kind in (Base, Means, Medians, Same):
        make_init(kind)
    return Means, Medians, Same


@pytest.fixture
def Means():
    return kinds()[0]


@pytest.fixture
def both():
    return kinds()[:2]


def test_what_is_given_is_assigned_and_the_rest_is_default(Means):
    method = Means(3, tolerance=0.5)
    assert vars(method) == {
        "n_clusters": 3, "rounds": 5, "tolerance": 0.5, "start": "far", "random_state": 0
    }  # fmt: skip
    assert vars(Means(3, 7, tolerance=None, start="random", random_state=2)) == {
        "n_clusters": 3, "rounds": 7, "tolerance": None, "start": "random", "random_state": 2
    }  # fmt: skip
    assert Means(rounds=7, n_clusters=3, tolerance=1).rounds == 7


def test_nothing_is_checked_or_copied_when_it_is_given(Means):
    given = [0]
    assert Means(given, tolerance="much").n_clusters is given


@pytest.mark.parametrize(
    ("args", "kwargs", "sentence"),
    [
        ((), {"tolerance": 1}, "missing a required argument: 'n_clusters'"),
        ((3,), {}, "missing a required(.*) argument: 'tolerance'"),
        ((3, 5, 0.5), {}, "too many positional arguments"),
        ((3,), {"tolerance": 1, "zebra": 1}, "got an unexpected keyword argument 'zebra'"),
        ((3,), {"tolerance": 1, "round": 1},
         r"got an unexpected keyword argument 'round'\. Did you mean 'rounds'\?"),
        ((3,), {"tolerance": 1, "n_clusters": 1}, "multiple values for argument 'n_clusters'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_names_the_class(args, kwargs, sentence):
    for kind in kinds():
        with pytest.raises(TypeError, match=f"^{kind.__name__}: {sentence}$") as refusal:
            kind(*args, **kwargs)
        assert refusal.value.__suppress_context__


def test_the_signature_tells_names_kinds_defaults_and_types(both):
    Means, Medians = both
    assert str(inspect.signature(Means)) == (
        "(n_clusters: int, rounds: int = 5, *, tolerance: float, start: str = 'far', "
        "random_state: int = 0) -> None"
    )
    assert "extra: int = 9, random_state: int = 0) -> None" in str(inspect.signature(Medians))
    assert next(iter(inspect.signature(Means.__init__).parameters)) == "self"
    assert Means.__init__.__qualname__ == f"{Means.__qualname__}.__init__"
    assert Medians.__init__.__qualname__ == f"{Medians.__qualname__}.__init__"


def test_a_subclass_adds_to_what_it_inherits_and_may_change_it(both):
    Means, Medians = both
    assert list(inspect.signature(Medians).parameters) == [
        "n_clusters", "rounds", "tolerance", "start", "extra", "random_state"
    ]  # fmt: skip
    method = Medians(3, tolerance=1)
    assert (method.start, method.extra) == ("near", 9)
    assert Means(3, tolerance=1).start == "far"
    assert not hasattr(Means(3, tolerance=1), "extra")
    assert constraints_of(Medians)["start"].rule == "one of 'near'"
    assert constraints_of(Means)["start"].rule == "one of 'random', 'far'"


def test_a_class_without_parameters_of_its_own_keeps_its_init():
    Means, _, Same = kinds()
    assert Same.__init__ is Means.__init__
    assert "__init__" not in vars(Same)

    class Plain:
        def __init__(self, size):
            self.size = size

    own = Plain.__init__
    make_init(Plain)
    assert Plain.__init__ is own
    assert constraints_of(Plain) == {}


def test_the_declarations_are_no_attributes_of_the_class(Means):
    assert not hasattr(Means, "n_clusters")
    assert not hasattr(Means, "random_state")
    assert Means.note == "no parameter"


def test_a_parameter_without_annotation_is_one():
    class Loose:
        size = param(AT_LEAST_1, default=2)

    make_init(Loose)
    assert Loose().size == 2
    assert str(inspect.signature(Loose)) == "(*, size=2) -> None"


def test_rules_are_known_by_name(Means):
    assert constraints_of(Means) == {
        "random_state": SEED,
        "n_clusters": AT_LEAST_1,
        "rounds": AT_LEAST_1,
        "tolerance": ANY,
        "start": constraints_of(Means)["start"],
    }


def test_scikit_learn_finds_and_copies_them(both):
    _, Medians = both
    method = Medians(3, tolerance=0.5, random_state=1)
    assert clone(method).get_params() == method.get_params() == vars(method)
    assert method.set_params(extra=2).extra == 2


@dataclass(frozen=True)
class Part:
    rounds: int
    tolerance: float
    seed: int


def test_parts_are_picked_by_the_names_of_their_fields(Means):
    method = Means(3, 7, tolerance=0.5)
    assert picked(Part, method, seed=4) == Part(7, 0.5, 4)
    # what is given wins over what the method has, and the method need not have it
    assert picked(Part, method, seed=4, rounds=1) == Part(1, 0.5, 4)
    with pytest.raises(AttributeError, match="'seed'"):
        picked(Part, SimpleNamespace(rounds=1, tolerance=0.5))
    with pytest.raises(TypeError, match=re.escape("unexpected keyword argument 'other'")):
        picked(Part, method, seed=4, other=1)
