"""From files to batches of ids: reading, cleaning, segmenting, storing and batching parallel text."""
