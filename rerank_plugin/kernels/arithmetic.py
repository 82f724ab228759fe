"""The fastmath flags of compiled loops: those of numba's that preserve NaN and infinity."""

REASSOCIATE = {"reassoc", "contract", "nsz"}  # sums may be split over vector lanes; NaN and infinity keep their meaning
