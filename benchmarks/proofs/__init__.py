"""Proofs beside the package: proof objects, and reviewed texts of claims."""
