"""DISSP (Fiscato, 2012): the figures of the thesis."""
