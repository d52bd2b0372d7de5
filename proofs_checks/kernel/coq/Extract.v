(** OCaml program texts of the verified algorithm and of the verified decoders, for the comparison with checker.py.

    Integers are those of zarith (the directives are trusted): Coq's division rounds down, like [Z.fdiv]. *)
From Coq Require Import Extraction ExtrOcamlBasic ExtrOcamlZBigInt ExtrOcamlString ZArith.
From Kernel Require Import FixedPoint Decoding Datasets Neighbors Refutation Acceptance.
Extraction Language OCaml.
Extract Constant Z.div => "(fun x y -> if Big_int_Z.sign_big_int y = 0 then Big_int_Z.zero_big_int else Z.fdiv x y)".
Extraction "verified_tail.ml" tail_bound.
Extraction "verified_decoders.ml" decode_claim decode_array rows decode_dataset decode_pair ceiling check.
