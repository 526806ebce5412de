"""One module for each interface that clients speak; each has a `router`."""
