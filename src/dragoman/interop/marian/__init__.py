"""Models of Marian (Junczys-Dowmunt et al., 2018) and Bergamot, which Firefox translates with, in and out."""
