"""Audits of private training with canaries that fair coins include or leave out. May import
results, privacy_loss and statistics.
"""
