"""Private statistics of a shop's orders, for its monthly report.

A dataset is a list of orders. Neighboring datasets differ by adding or removing one order, unless a
function says otherwise.
"""

from shop.orders import best_seller, order_count, order_sizes, shipping_counts
from shop.revenue import mean_amount, median_amount, total_amount

__all__ = [
    "best_seller",
    "mean_amount",
    "median_amount",
    "order_count",
    "order_sizes",
    "shipping_counts",
    "total_amount",
]
