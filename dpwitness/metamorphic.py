"""Metamorphic audits: relations between several runs that hold without a reference output."""

from dpwitness.auditors.functions.metamorphic import (
    RELATIONS,
    MetamorphicResult,
    audit_metamorphic,
    concatenation_is_kept,
    more_epsilon_is_no_more_noise,
    order_is_ignored,
    parallel_composition_is_the_maximum,
)

__all__ = [
    "RELATIONS",
    "MetamorphicResult",
    "audit_metamorphic",
    "concatenation_is_kept",
    "more_epsilon_is_no_more_noise",
    "order_is_ignored",
    "parallel_composition_is_the_maximum",
]
