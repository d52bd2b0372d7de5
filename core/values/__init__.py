"""Validation, JSON, files and the backends of data frames, for all other packages. Imports no other
package.
"""
