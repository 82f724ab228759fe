"""What compiled loops may do with sums: the part of numba's fastmath that keeps NaN and infinity."""

REASSOCIATE = {"reassoc", "contract", "nsz"}  # sums may be split over vector lanes; NaN and infinity keep their meaning
