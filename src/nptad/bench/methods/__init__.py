"""The methods that nptad is compared with, one file each, all with the same contract.

Examples
--------
>>> import numpy as np
>>> from nptad.bench.methods.rrcf import RRCF
>>> x = np.random.default_rng(0).normal(size=(200, 3))
>>> normal, odd = RRCF(random_state=0).fit(x).score([[0, 0, 0], [5, -5, 5]])
>>> bool(odd > normal)
True
"""
