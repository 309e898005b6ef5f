"""The documented public names exist, and nothing in `__all__` is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import structopt as so

DESIGN = """
LabelSpace Oracle Plane PointPlane Model Hierarchy load_model StructuredSVM HierarchicalSVM SharedSVM
ConditionalRiskMinimizer LinearSVM RankSVM AUCMaximizer FBetaSVM QuantileRegressor OrdinalRegressor CRF load
search.angular search.bisecting search.binary search.sarawagi search.convex_hull search.exact
surrogates.Margin surrogates.Slack surrogates.BetaScaling surrogates.GeneralizedScaling surrogates.LogLoss
surrogates.ProbLoss surrogates.MicroF1 surrogates.register structures.Multiclass structures.MultiLabel
structures.PairwiseMRF structures.HierarchicalLabels structures.Chain structures.Segmentation
structures.Arborescence structures.Assignment structures.Ranking structures.Flow train.bmrm train.block_ascent
train.one_slack train.n_slack train.sgd train.bcfw train.proximal_bundle norms.normalization norms.maxmin
norms.shared_alpha norms.shared_frobenius losses.Hamming losses.LeafHamming losses.HierarchicalLoss
losses.Footrule risks.Hinge risks.SquaredHinge risks.Logistic risks.Exponential risks.Novelty
risks.LeastSquares risks.Absolute risks.Quantile risks.EpsilonInsensitive risks.Huber risks.Poisson
risks.Multiclass risks.Softmax risks.ROCArea risks.Ordinal risks.Preference risks.Ranking risks.FBeta
risks.Ontology regularizers.L2 regularizers.L1 regularizers.Lp regularizers.Quadratic regularizers.Entropy
testing.check_backend testing.check_surrogate testing.check_model testing.check_oracle
testing.check_regularizer testing.check_loss testing.check_risk testing.check_trainer plot.plane plot.surrogates
plot.hierarchy data.synthetic_hierarchy data.synthetic_flow
""".split()  # noqa: SIM905


@pytest.mark.parametrize("name", DESIGN)
def test_public_name_exists(name):
    found = so
    for part in name.split("."):
        found = getattr(found, part)


@pytest.mark.parametrize("name", so.__all__)
def test_all_is_there(name):
    assert getattr(so, name) is not None
    assert name in dir(so)


def test_unknown_name():
    with pytest.raises(AttributeError, match="nope"):
        so.nope  # noqa: B018


def removed_names():
    space = so.LabelSpace.from_matrices([[1, 1]], 1, 1)
    model = so.structures.Multiclass(2)
    return {
        "structopt.shared_oracle": lambda: so.shared_oracle,
        "Oracle.solve_batch": lambda: so.Oracle(space).solve_batch,
        "features.Scaled": lambda: so.features.Scaled,
        "LabelSpace.seal": lambda: space.seal,
        "Model.loss_at": lambda: model.loss_at,
        "TaskLoss.smallest": lambda: so.losses.Hamming().smallest,
        "Model.scores_batch": lambda: model.scores_batch,
        "Model.joint_batch": lambda: model.joint_batch,
    }


@pytest.mark.parametrize("name", removed_names())
def test_a_removed_name_names_its_replacement(name):
    with pytest.raises(AttributeError, match=rf"{name} was removed: \w+"):
        removed_names()[name]()


def test_a_removed_name_is_no_attribute_and_may_be_used_by_a_subclass():
    class Own(so.structures.Multiclass):
        loss_at = 3

    assert not hasattr(so.Model, "loss_at")
    assert not hasattr(so.structures.Multiclass(2), "loss_at")
    assert Own(2).loss_at == 3


def test_removed_names_leave_the_look_up_of_attributes_to_python():
    """CPython looks up the attributes of a class that has `__getattr__` in a slower way."""
    classes = (so.Oracle, so.Model, so.LabelSpace, so.losses.TaskLoss)
    assert not [owner for owner in classes if hasattr(owner, "__getattr__")]


def test_an_unknown_attribute_of_a_class_with_removed_names():
    with pytest.raises(AttributeError, match="'Multiclass' object has no attribute 'nope'"):
        so.structures.Multiclass(2).nope  # noqa: B018


def test_regularizers_before_anything_else():
    """In a new process: other tests have imported the module by then, which hides a name that is missing."""
    code = "import structopt; print(structopt.regularizers.L2.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "L2"


def test_import_is_light():
    """Nothing is imported before it is used: the compiler, scipy, scikit-learn and pandas take seconds."""
    code = """if True:
        import sys, structopt as so
        heavy = ("numpy", "numba", "scipy", "highspy", "sklearn", "pandas", "matplotlib", "pyomo", "pulp", "torch")
        print([name for name in heavy if name in sys.modules])
        so.LabelSpace, so.Oracle, so.Plane, so.structures, so.search
        heavy = ("scipy.optimize", "sklearn", "pandas", "matplotlib", "pyomo", "pulp", "torch")
        print([name for name in heavy if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "[]"]


def test_names_are_found_once():
    """A name that was asked for is an attribute of the module from then on."""
    assert so.LabelSpace is so.space.LabelSpace
    assert {"LabelSpace", "space", "structures"} <= vars(so).keys()
