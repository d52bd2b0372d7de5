"""The papers' algorithms, printed and repaired, a file each, with kernels, data and a zoo. May import what the textbook may."""
