"""Metamorphic audits: relations between several runs that hold for every private mechanism."""

from dpwitness.auditors.functions.metamorphic.audit import (
    RELATIONS,
    MetamorphicResult,
    audit_metamorphic,
)
from dpwitness.auditors.functions.metamorphic.relations import (
    concatenation_is_kept,
    errors_ignore_one_record,
    more_epsilon_is_no_more_noise,
    more_epsilon_spreads_no_more,
    order_is_ignored,
    parallel_composition_is_the_maximum,
    zero_epsilon_is_constant,
    zero_map_is_constant,
)

__all__ = [
    "RELATIONS",
    "MetamorphicResult",
    "audit_metamorphic",
    "concatenation_is_kept",
    "errors_ignore_one_record",
    "more_epsilon_is_no_more_noise",
    "more_epsilon_spreads_no_more",
    "order_is_ignored",
    "parallel_composition_is_the_maximum",
    "zero_epsilon_is_constant",
    "zero_map_is_constant",
]
