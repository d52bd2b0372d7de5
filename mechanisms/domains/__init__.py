"""What datasets a mechanism accepts and which of them are neighbours: one file a domain, with all that a search for pairs asks of it.

A new domain is a file here and a line below. May import the terms of `mechanisms`, nothing that audits.
"""

from dpwitness.mechanisms.domains.answers import Answers
from dpwitness.mechanisms.domains.base import Domain
from dpwitness.mechanisms.domains.costs import Costs
from dpwitness.mechanisms.domains.counts import Counts
from dpwitness.mechanisms.domains.labelled_ball import LabelledBall
from dpwitness.mechanisms.domains.records import Records
from dpwitness.mechanisms.domains.rows import Rows

__all__ = ["Answers", "Costs", "Counts", "Domain", "LabelledBall", "Records", "Rows"]
