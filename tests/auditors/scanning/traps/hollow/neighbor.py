"""Constants of `inner`."""

SCALE = 1.0
