"""Ids of the special symbols: padding, unknown token, beginning and end of a sequence."""

PAD, UNK, BOS, EOS = 0, 1, 2, 3
