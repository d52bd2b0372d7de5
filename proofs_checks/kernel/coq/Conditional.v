(** * The conditional test of one stage, with a confidence limit for the frequency of guesses *)

From Coq Require Import Reals Lra Lia List Arith.
From Kernel Require Import Binomial Rounds CoinFlip.
Open Scope R_scope.

(** Counts of a stage. Rounds whose output was lost count as incorrect. *)
Record counts := { correct : nat; incorrect : nat; lost : nat }.
Definition guesses (k : counts) : nat := correct k + incorrect k.
Definition observed (k : counts) : nat := guesses k - lost k.

(** Honest counts: the guesses of the rounds are counted, except for at most [lost] rounds. These rounds may have
    any outcomes, and it does not matter why they were lost. *)
Definition honest {Output} (rule : Output -> guess) (rounds : list round) (k : counts) : Prop :=
  (correct k <= count (right rule) rounds)%nat
  /\ (incorrect k <= count (wrong rule) rounds + lost k)%nat
  /\ (lost k <= incorrect k)%nat
  /\ (count (right rule) rounds + count (wrong rule) rounds <= guesses k)%nat.

(** [s_low] is a lower confidence limit at error [gamma] of the frequency of guesses. *)
Definition frequency_limit (n : nat) (k : counts) (gamma s_low : R) : Prop :=
  probability s_low /\ tail n (observed k) s_low <= gamma.

Section OneStage.
Context {Output : Type} (m : @pair Output) (rule : Output -> guess) (n : nat).
Hypothesis is_pair : proper_pair m.
Let s := frequency m rule.
Let theta := accuracy m rule.

(** The frequency limit fails: s_low > s is possible only then. *)
Definition limit_fails (gamma : R) (rounds : list round) : Prop :=
  tail n (count (right rule) rounds + count (wrong rule) rounds) s <= gamma.

Definition limit_fails_dec gamma rounds : {limit_fails gamma rounds} + {~ limit_fails gamma rounds} := Rle_dec _ _.

Lemma limit_fails_rarely : forall gamma, 0 <= gamma ->
  mean_rounds m n (fun l => if limit_fails_dec gamma l then 1 else 0) <= gamma.
Proof.
  intros gamma Hgamma. unfold limit_fails_dec, limit_fails.
  rewrite (law_of_counts m rule n (fun _ g => if Rle_dec (tail n g s) gamma then 1 else 0) is_pair).
  rewrite (expectation_eq n _ _ (fun g => if Rle_dec (tail n g s) gamma then 1 else 0)) by (intros; apply expectation_constant).
  apply p_value_valid; trivial. now apply frequency_is_probability.
Qed.

Lemma limit_holds : forall rounds k gamma s_low, honest rule rounds k -> frequency_limit n k gamma s_low ->
  ~ limit_fails gamma rounds -> s_low <= s.
Proof.
  intros rounds k gamma s_low (Hr & Hw & Hl & _) [Hprob Htail] Hfine. apply Rnot_lt_le. intros Hlt. apply Hfine.
  unfold limit_fails. apply Rle_trans with (2 := Htail).
  assert (Hs : probability s) by now apply frequency_is_probability.
  apply Rle_trans with (tail n (count (right rule) rounds + count (wrong rule) rounds) s_low).
  - apply tail_monotone; trivial. lra.
  - apply tail_falls_in_successes; trivial. unfold observed, guesses. lia.
Qed.

(** The p-value of honest counts at theta0 >= theta is at least the p-value of the rounds at theta. *)
Lemma p_value_of_counts : forall rounds k theta0, honest rule rounds k -> theta <= theta0 -> probability theta0 ->
  tail (count (right rule) rounds + count (wrong rule) rounds) (count (right rule) rounds) theta
  <= tail (guesses k) (correct k) theta0.
Proof.
  intros rounds k theta0 (Hr & _ & _ & Hall) Hle H0.
  assert (Ht : probability theta) by now apply accuracy_spec.
  eapply Rle_trans; [apply tail_rises_in_trials; [trivial|apply Hall]|].
  eapply Rle_trans; [apply tail_falls_in_successes; [trivial|apply Hr]|]. now apply tail_monotone.
Qed.

(** The test: theta0 is a limit of the accuracy wherever s_low is a limit of the frequency. *)
Definition conditional_test (alpha gamma : R) (k : counts) : Prop := exists s_low theta0,
  frequency_limit n k gamma s_low
  /\ (s_low <= s -> theta <= theta0) /\ probability theta0
  /\ tail (guesses k) (correct k) theta0 <= alpha - gamma.

(** Theorem (c): the test with errors (alpha - gamma, gamma) accepts with chance at most alpha. *)
Theorem conditional_test_valid : forall alpha gamma (accepts : list round -> bool), 0 <= gamma <= alpha ->
  (forall l, accepts l = true -> exists k, honest rule l k /\ conditional_test alpha gamma k) ->
  mean_rounds m n (fun l => indicator (accepts l)) <= alpha.
Proof.
  intros alpha gamma accepts Hgamma Haccepts.
  set (C := count (right rule)). set (M := fun l => (C l + count (wrong rule) l)%nat).
  assert (Hsplit : mean_rounds m n (fun l => indicator (accepts l))
    <= mean_rounds m n (fun l => 1 * (if limit_fails_dec gamma l then 1 else 0)
                              + 1 * (if Rle_dec (tail (M l) (C l) theta) (alpha - gamma) then 1 else 0))).
  { apply mean_rounds_le; trivial. intros l _.
    destruct (limit_fails_dec gamma l) as [|Hfine], (Rle_dec (tail (M l) (C l) theta) (alpha - gamma)) as [|Hlarge];
      try (pose proof (indicator_bounds (accepts l)); lra).
    destruct (accepts l) eqn:E; simpl; [|lra]. exfalso. apply Hlarge.
    destruct (Haccepts l E) as (k & Hk & s_low & theta0 & Hs & Hlimit & H0 & Htail).
    apply Rle_trans with (2 := Htail). apply p_value_of_counts; trivial. apply Hlimit. eapply limit_holds; eassumption. }
  rewrite mean_rounds_linear in Hsplit.
  pose proof (limit_fails_rarely gamma ltac:(lra)) as Hfail.
  unfold M, C in Hsplit.
  rewrite (law_of_counts m rule n (fun c g => if Rle_dec (tail g c theta) (alpha - gamma) then 1 else 0) is_pair) in Hsplit.
  assert (Hcond : expectation n (frequency m rule) (fun g => expectation g (accuracy m rule)
            (fun c => if Rle_dec (tail g c theta) (alpha - gamma) then 1 else 0)) <= alpha - gamma).
  { apply Rle_trans with (expectation n (frequency m rule) (fun _ => alpha - gamma)).
    - apply expectation_le; [now apply frequency_is_probability|]. intros g _.
      apply p_value_valid; [now apply accuracy_spec|lra].
    - rewrite expectation_constant. lra. }
  lra.
Qed.
End OneStage.
