"""Training: losses, optimizers, the training loop, checkpoints and workers. Decoding and metrics are arguments."""
