(** The axioms that each theorem depends on. `make` compares this output with the published text in assumptions.txt. *)
From Kernel Require Import Binomial CoinFlip Conditional Stages FixedPoint EndToEnd.
Print Assumptions tail_monotone.
Print Assumptions coin_flip.
Print Assumptions coin_flip_approximate.
Print Assumptions mirrored_line.
Print Assumptions conditional_test_valid.
Print Assumptions stages_valid.
Print Assumptions tail_bound_sound.
Print Assumptions false_bound_is_rare.
