"""The page on this machine: a table goes in through the browser, its anomalies come out."""
