"""Past one process: one Arrow scorer, and the ways to run it on big files, on Ray and on Spark."""

import os

# The workers of Ray and Spark import this before torch, which reads it: threads that spin while they wait make a busy
# machine many times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
