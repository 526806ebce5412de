"""Models of Hugging Face's transformers, read from and written to folders with `config.json`."""
