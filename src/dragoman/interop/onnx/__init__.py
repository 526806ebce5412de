"""ONNX graphs of a model, out: one of the encoder or of a prompt, and one of a step of the decoder."""
