"""CoD (Katsipoulakis et al., 2018): its figures, and streams to try it on."""
