"""The native interface: everything that the models can say, in the records of `--format jsonl`."""

from dragoman.serving.protocols.native import explain, generate, models, predict, translate

ROUTERS = (models.router, translate.router, explain.router, generate.router, predict.router)
