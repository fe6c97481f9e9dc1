"""THEMIS (Kalyvianaki et al., 2016): its figures and tables."""
