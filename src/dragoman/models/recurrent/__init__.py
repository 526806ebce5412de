"""Recurrent sequence-to-sequence networks: with attention (Bahdanau et al., 2015; Luong et al., 2015) or without
(Sutskever et al., 2014)."""
