"""HTTP server: models of run folders behind the interfaces that translation and language model clients speak.

`protocols/` has one module for each interface. All of them call `Server`, which finds the models for a request, checks
limits and keys, and decodes the requests of all callers together.
"""
