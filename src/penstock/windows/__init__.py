"""CoD: shedding that follows the concept of the window (Katsipoulakis et al., 2018).

The concept of a window is what its query makes of it: how often each group appears. Penstock
learns it while the window fills, so that every group gets its share and none disappears.
``in_force`` is what a controller is given, ``buffer`` what a window processor works with. All is
plain NumPy; ``penstock.spark`` brings it to a stream.
"""
