"""Position encodings: absolute ones join the embedding, relative ones act inside self-attention."""
