(** * End to end: the checker accepts a false bound with probability at most alpha

    An audit has n rounds. A round flips a fair coin, runs the mechanism on dataset D1 (heads) or D0 (tails), and
    guesses the coin from the output, or abstains. The checker gets the counts of right, wrong and lost rounds and
    accepts or refuses "epsilon is larger than x", for (epsilon, delta)-differential privacy, in integers only. *)

From Coq Require Import Reals Lra Lia ZArith Bool.
From Kernel Require Import Binomial Rounds CoinFlip Conditional FixedPoint.

(** The checker. Numbers are in units of 1 / one. [s] is the proposed limit of the frequency of guesses: any search
    may have found it. [slope] and [start] are upper bounds of e^x and delta. *)
Definition factor (d : directions) : Z := match d with Both => 1 | _ => 2 end.

Definition accepts (fuel : nat) (one stop slope start alpha gamma : Z) (d : directions) (n : nat) (k : counts) (s : Z) : bool :=
  let total := (factor d * s)%Z in
  let c := ((total - start) * one / (one + slope))%Z in
  let a := (total - c)%Z in
  ((0 <? s) && (s <? one) && (0 <? a) && (0 <? c)
   && (observed k <=? n)%nat
   && (tail_bound fuel (Z.of_nat n) (Z.of_nat (observed k)) s (one - s) one stop <=? gamma)
   && (tail_bound fuel (Z.of_nat (guesses k)) (Z.of_nat (correct k)) a c one stop <=? alpha - gamma))%Z.

Open Scope R_scope.

Section EndToEnd.
Context {Output : Type} (m : @pair Output) (n : nat) (x delta : R).
Context (one stop slope start alpha gamma : Z) (fuel : nat).

(** Assumption 1: the event is fixed before its rounds. [rule] is a constant here, not a function of the rounds.
    Assumption 2: the rounds are independent. [mean_rounds] is the expectation over n independent rounds. *)
Context (rule : Output -> guess) (d : directions).
Hypothesis rule_keeps_directions : keeps d rule.

(** Assumption 3: the counts are honest. At most [lost] rounds are not counted as they happened, and these count as wrong. *)
Context (report : list (@round Output) -> counts).
Hypothesis counts_are_honest : forall rounds, honest rule rounds (report rounds).

(** The proposed limit may be any function of the counts. *)
Context (find : counts -> Z).

(** Assumption 4: integers that the checker computes from the claim are upper bounds. *)
Hypothesis one_positive : (0 < one)%Z.
Hypothesis slope_is_upper_bound : IZR one * exp x <= IZR slope.
Hypothesis start_is_upper_bound : IZR one * delta <= IZR start.
Hypothesis errors : (0 <= gamma <= alpha)%Z.

(** The claim is true at x: the output's laws on D1 and D0 are laws, and (x, delta)-indistinguishable. *)
Hypothesis laws_are_laws : proper_pair m.
Hypothesis delta_nonnegative : 0 <= delta.
Hypothesis claim_is_true_at_x : approximate_dp x delta m.

Theorem false_bound_is_rare :
  mean_rounds m n (fun rounds =>
    indicator (accepts fuel one stop slope start alpha gamma d n (report rounds) (find (report rounds))))
  <= IZR alpha / IZR one.
Proof.
  assert (Hone : 0 < IZR one) by now apply IZR_lt.
  assert (Hdivide : forall u v, (u <= v)%Z -> IZR u / IZR one <= IZR v / IZR one).
  { intros u v H. apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat|now apply IZR_le]. }
  apply (conditional_test_valid m rule n laws_are_laws (IZR alpha / IZR one) (IZR gamma / IZR one)).
  { destruct errors as [H0 H1]. split; [|now apply Hdivide].
    apply Hdivide in H0. unfold Rdiv in H0 at 1. now rewrite Rmult_0_l in H0. }
  intros rounds H. exists (report rounds). split; [apply counts_are_honest|].
  set (k := report rounds) in *. set (s := find k) in *. unfold accepts in H.
  set (total := (factor d * s)%Z) in *. set (c := ((total - start) * one / (one + slope))%Z) in *.
  rewrite !andb_true_iff, !Z.ltb_lt, !Z.leb_le, Nat.leb_le in H.
  destruct H as ((((((Hs & Hs1) & Ha) & Hc) & Hn) & Hgamma) & Halpha).
  assert (Htotal : IZR total = scale d * IZR s) by (unfold total; rewrite mult_IZR; now destruct d).
  assert (HsR : 0 < IZR s < IZR one) by (split; now apply IZR_lt).
  assert (HcR : 0 < IZR c) by now apply IZR_lt.
  assert (HaR : 0 < IZR total - IZR c) by (rewrite <- minus_IZR; now apply IZR_lt).
  assert (Hshare : forall u v, 0 < u -> 0 < v -> 0 <= u / (u + v) <= 1).
  { intros u v Hu Hv. split; [apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat; lra]|].
    apply Rmult_le_reg_r with (u + v); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  exists (IZR s / IZR one), (IZR (total - c) / IZR (total - c + c)). repeat split.
  - replace (IZR one) with (IZR s + (IZR one - IZR s)) by ring. apply Hshare; lra.
  - replace (IZR one) with (IZR s + (IZR one - IZR s)) by ring. apply Hshare; lra.
  - apply Rle_trans with (2 := Hdivide _ _ Hgamma).
    pose proof (tail_bound_sound fuel n (Z.of_nat (observed k)) s (one - s) one stop ltac:(lia) Hs ltac:(lia) one_positive) as Hsound.
    rewrite Nat2Z.id in Hsound. now replace (s + (one - s))%Z with one in Hsound by lia.
  - apply accuracy_limit with (d := d) (g := fun q => exp x * q + delta); trivial; [now apply line_is_curve|].
    rewrite plus_IZR, minus_IZR.
    apply beyond_approximate; [now apply Rdiv_lt_0_compat|apply Hshare; lra|].
    assert (Hslope : 0 < IZR slope) by (pose proof (exp_pos x); nra).
    assert (Hfloor : IZR c * (IZR one + IZR slope) <= (IZR total - IZR start) * IZR one).
    { rewrite <- plus_IZR, <- minus_IZR, <- !mult_IZR. apply IZR_le. apply floor_le. apply lt_IZR. rewrite plus_IZR. lra. }
    assert (HT : 0 < IZR total) by lra.
    assert (Hd : 1 <= scale d) by (destruct d; simpl; lra).
    apply Rmult_le_reg_r with (IZR total * IZR one); [now apply Rmult_lt_0_compat|].
    replace ((1 - (IZR total - IZR c) / (IZR total - IZR c + IZR c)) * (1 + exp x) * (IZR total * IZR one))
      with (IZR c * (IZR one + IZR one * exp x)) by (field; lra).
    replace ((1 - delta / scale d / (IZR s / IZR one)) * (IZR total * IZR one))
      with ((IZR total - IZR one * delta) * IZR one) by (rewrite Htotal; field; lra).
    apply Rle_trans with (IZR c * (IZR one + IZR slope)); [apply Rmult_le_compat_l; lra|].
    apply Rle_trans with (1 := Hfloor). apply Rmult_le_compat_r; lra.
  - rewrite plus_IZR, minus_IZR. apply Hshare; lra.
  - rewrite plus_IZR, minus_IZR. apply Hshare; lra.
  - pose proof (tail_bound_sound fuel (guesses k) (Z.of_nat (correct k)) (total - c) c one stop
      ltac:(unfold guesses; lia) Ha Hc one_positive) as Hsound.
    rewrite Nat2Z.id in Hsound. apply Rle_trans with (1 := Hsound). apply Rle_trans with (1 := Hdivide _ _ Halpha).
    rewrite minus_IZR. right. field. lra.
Qed.
End EndToEnd.
