"""What the page and the scoring service know of HTTP: connections, addresses and the bodies of requests."""
