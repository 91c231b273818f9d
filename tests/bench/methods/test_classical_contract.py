import pytest
from pyod.models.copod import COPOD
from sklearn.ensemble import IsolationForest

from nptad.bench.checks import CHECKS, run_check
from nptad.bench.methods.gmm import GMMEnsemble
from nptad.bench.methods.knn import KNN
from nptad.bench.methods.lof import LOF
from nptad.bench.methods.mask_knn import MaskKNN
from nptad.bench.methods.pidforest import PIDForest
from nptad.bench.methods.retrieval import RetrievalNetwork
from nptad.bench.methods.rrcf import RRCF
from nptad.bench.protocol import as_method

# Libraries refuse bad input with errors of their own, and PyOD takes arrays only.
OWN_ERRORS = {"empty", "axes", "width", "missing_cell", "infinite_cell"}

# Random samples of the training rows depend on their order. PyOD's COPOD looks at the batch.
DETECTORS = {
    "IForest": (
        lambda: as_method(IsolationForest(n_estimators=20, random_state=0)),
        OWN_ERRORS,
    ),
    "KNN": (KNN, set()),
    "1-NN": (lambda: KNN(k=1, scaling="minmax"), set()),
    "COPOD": (lambda: as_method(COPOD()), {"batch", "number_types", "not_fitted", *OWN_ERRORS}),
    "RRCF": (lambda: RRCF(n_trees=20, sample_size=50, random_state=0), {"training_order"}),
    "PIDForest": (lambda: PIDForest(n_trees=20, sample_size=50, random_state=0), {"training_order"}),
    "Mask-KNN": (lambda: MaskKNN(random_state=0), set()),
    "LOF": (lambda: LOF(random_state=0), set()),
    # It takes tables, with gaps and unreadable cells; a table without rows has no scores.
    "Retrieval": (RetrievalNetwork, {"training_order", "empty", "missing_cell", "infinite_cell"}),
    "GMMEnsemble": (lambda: GMMEnsemble(n_members=3, random_state=0), {"training_order"}),
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", DETECTORS)
def test_contract(name, check):
    make, cannot = DETECTORS[name]
    if check in cannot:
        with pytest.raises((AssertionError, AttributeError)):
            run_check(check, make)
    else:
        run_check(check, make)
