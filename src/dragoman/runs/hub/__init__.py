"""Models on the Hugging Face Hub: downloaded as runs, and published with a model card."""
