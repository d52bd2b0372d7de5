(** OCaml program text of the verified algorithm, for the comparison with checker.py. *)
From Coq Require Import Extraction ExtrOcamlBasic ZArith.
From Kernel Require Import FixedPoint.
Extraction Language OCaml.
Extraction "verified_tail.ml" tail_bound.
