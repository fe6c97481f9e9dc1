"""CoD: shedding that follows the concept of the window (Katsipoulakis et al., 2018).

The concept of a window is what its query makes of it: how often each group appears. Here it is
learnt while the window fills, so that every group gets its share and none disappears. Plain
numpy; ``penstock.spark`` brings it to a stream.
"""
