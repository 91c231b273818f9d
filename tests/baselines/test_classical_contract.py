import pytest

from nptad.baselines.copod import COPOD
from nptad.baselines.gmm import GMMEnsemble
from nptad.baselines.iforest import IForest
from nptad.baselines.knn import KNN
from nptad.baselines.lof import LOF
from nptad.baselines.mask_knn import MaskKNN
from nptad.baselines.ocsvm import OCSVM
from nptad.baselines.pidforest import PIDForest
from nptad.baselines.rrcf import RRCF
from nptad.checks import CHECKS, run_check

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
