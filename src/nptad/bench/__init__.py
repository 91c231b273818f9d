"""The benchmark of the paper: data sets, protocol, runs, results."""
