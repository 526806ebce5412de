"""Processes that analyze texts and files for the server, and that it can stop.

`WorkerPool` runs a function of a module in such a process, a worker. The function may use the translators of the
server: tokenizers and text processing are in the worker, and the server decodes for it.
"""
