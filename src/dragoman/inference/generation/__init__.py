"""Generation of text: prompts in, completions out, whole or in pieces, and the perplexity of texts."""
