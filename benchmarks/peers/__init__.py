"""Comparison of auditing tools on shared mechanisms: certified bounds, false alarms, and processor
time.
"""
