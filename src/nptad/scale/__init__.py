"""Past one process: one Arrow scorer, and the ways to run it on big files, on Ray and on Spark."""
