"""Models on the Hugging Face Hub: the choice of the files that an import reads, and their download."""
