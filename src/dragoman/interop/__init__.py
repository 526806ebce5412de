"""Models of other programs: read into our networks and written back, one sub-package per program."""
