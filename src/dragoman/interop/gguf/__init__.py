"""GGUF files of llama.cpp, read: Llama-shaped models with quantized weights and their tokenizer."""
