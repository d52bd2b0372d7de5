(** The axioms that each theorem depends on. `make` compares this output with the published text in assumptions.txt. *)
From Kernel Require Import Binomial CoinFlip Conditional Stages FixedPoint EndToEnd Decoding Datasets Neighbors Refutation Acceptance.
Print Assumptions tail_monotone.
Print Assumptions coin_flip.
Print Assumptions coin_flip_approximate.
Print Assumptions mirrored_line.
Print Assumptions conditional_test_valid.
Print Assumptions stages_valid.
Print Assumptions tail_bound_sound.
Print Assumptions false_bound_is_rare.
Print Assumptions read_claim_spec.
Print Assumptions decode_claim_spec.
Print Assumptions other_numbers_are_refused.
Print Assumptions rows_spec.
Print Assumptions decode_examples_spec.
Print Assumptions decode_pair_spec.
Print Assumptions refutes_is_test.
Print Assumptions check_spec.
Print Assumptions false_statement_is_rare.
