"""The device that tests of the device engine run on: by default the CPU, as ``cpu:0``; ``make gpu`` names another."""

import os

DEVICE = os.environ.get("RERANK_PLUGIN_TEST_DEVICE", "cpu:0")  # to the package ``cpu:0`` is a device like any other
