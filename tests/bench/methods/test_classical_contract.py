import pytest

from nptad.bench.checks import CHECKS, run_check
from nptad.bench.methods.copod import COPOD
from nptad.bench.methods.gmm import GMMEnsemble
from nptad.bench.methods.iforest import IForest
from nptad.bench.methods.knn import KNN
from nptad.bench.methods.lof import LOF
from nptad.bench.methods.mask_knn import MaskKNN
from nptad.bench.methods.ocsvm import OCSVM
from nptad.bench.methods.pidforest import PIDForest
from nptad.bench.methods.rrcf import RRCF

# Random samples of the training rows, and the order in which an SVM's solver visits them, depend on their order.
# PyOD's COPOD looks at the batch.
DETECTORS = {
    "IForest": (lambda: IForest(n_trees=20, sample_size=50, random_state=0), {"training_order"}),
    "KNN": (KNN, set()),
    "1-NN": (lambda: KNN(k=1, scaling="minmax"), set()),
    "COPOD": (COPOD, {"batch"}),
    "RRCF": (lambda: RRCF(n_trees=20, sample_size=50, random_state=0), {"training_order"}),
    "PIDForest": (lambda: PIDForest(n_trees=20, sample_size=50, random_state=0), {"training_order"}),
    "Mask-KNN": (lambda: MaskKNN(random_state=0), set()),
    "LOF": (lambda: LOF(random_state=0), set()),
    "OCSVM": (lambda: OCSVM(random_state=0), {"training_order"}),
    "GMMEnsemble": (lambda: GMMEnsemble(n_members=3, random_state=0), {"training_order"}),
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", DETECTORS)
def test_contract(name, check):
    make, cannot = DETECTORS[name]
    if check in cannot:
        with pytest.raises(AssertionError):
            run_check(check, make)
    else:
        run_check(check, make)
