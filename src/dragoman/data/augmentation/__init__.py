"""Augmentation of training pairs, drawn anew in each epoch from the seed, the epoch and the row of a pair."""
