"""Constants of the compiled loops: fastmath flags that preserve NaN and infinity, and the smallest denominator."""

REASSOCIATE = {"reassoc", "contract", "nsz"}  # sums may be split over vector lanes; NaN and infinity keep their meaning
TINY = 2.0**-126  # the smallest normal float32: keeps zero vectors from dividing by zero
DROPPED_BITS = 4  # of the 24 of a distance: words whose distances differ in no other are equally close
