"""The methods that nptad is compared with, one file each, all with the same contract."""
