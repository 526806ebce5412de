"""JoeyNMT (Kreutzer et al., 2019): checkpoints of translation Transformers are read."""
