"""Constants of the compiled loops: fastmath flags that preserve NaN and infinity, and the smallest denominator."""

REASSOCIATE = {"reassoc", "contract", "nsz"}  # sums may be split over vector lanes; NaN and infinity keep their meaning
TINY = 2.0**-126  # the smallest normal float32: keeps zero vectors from dividing by zero
