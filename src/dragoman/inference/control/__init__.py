"""Control of translations: constraints on their words, and steps that change texts before the translation."""
