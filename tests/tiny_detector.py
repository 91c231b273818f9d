"""A detector small enough to be fitted in many tests."""

from typing import Any

import numpy as np

from nptad import NPTAD
from nptad.scoring.ensemble import Ensemble
from nptad.scoring.folds import MemberAssignment


def tiny(**parameters: Any) -> NPTAD:
    """A detector of two members, five steps and eight dimensions; ``parameters`` change or add settings."""
    return NPTAD(**{"n_members": 2, "n_steps": 5, "embedding_dim": 8, "random_state": 0} | parameters)


def score_all(ensemble: Ensemble, x: np.ndarray, assignment: MemberAssignment) -> np.ndarray:
    """The score of each encoded row under the members that it is assigned to."""
    return assignment.mean(ensemble.member_scores(x, assignment))
