(** * The coin-flip theorem: the claim limits the right guesses by the wrong guesses

    Privacy claims of every kind are upper bounds g on the trade-off between two datasets: an event with chance q
    on one dataset has chance at most g(q) on the other dataset. *)

From Coq Require Import Reals Lra Lia List.
From Kernel Require Import Binomial Rounds.
Open Scope R_scope.

(** Curves of claims. A curve on [0, 1] is continued by a constant beyond 1. *)
Record curve (g : R -> R) : Prop := {
  concave : forall x y t, 0 <= x -> 0 <= y -> 0 <= t <= 1 -> t * g x + (1 - t) * g y <= g (t * x + (1 - t) * y);
  increasing : forall x y, 0 <= x -> x <= y -> g x <= g y;
  nonnegative_at_0 : 0 <= g 0 }.

(** The mechanism satisfies the claim with curve g on this pair of datasets: all events, both orders. *)
Definition satisfies {Output} (g : R -> R) (m : pair) : Prop := forall event : Output -> bool,
  chance (on1 m) event <= g (chance (on0 m) event) /\ chance (on0 m) event <= g (chance (on1 m) event).

(** (epsilon, delta)-differential privacy. *)
Definition approximate_dp {Output} (epsilon delta : R) (m : pair) : Prop := forall event : Output -> bool,
  chance (on1 m) event <= exp epsilon * chance (on0 m) event + delta
  /\ chance (on0 m) event <= exp epsilon * chance (on1 m) event + delta.

Lemma line_is_curve : forall epsilon delta, 0 <= delta -> curve (fun q => exp epsilon * q + delta).
Proof.
  intros epsilon delta H. pose proof (exp_pos epsilon). split; intros; try lra.
  pose proof (Rmult_le_compat_l (exp epsilon) x y ltac:(lra) ltac:(lra)). lra.
Qed.

(** How often a rule guesses in each direction, per guess of a rule with both directions. *)
Inductive directions := Both | Only1 | Only0.

Definition keeps {Output} (d : directions) (rule : Output -> guess) : Prop :=
  match d with
  | Both => True
  | Only1 => forall y, rule y <> Guess0
  | Only0 => forall y, rule y <> Guess1
  end.

(** 2 / k for k guess directions. *)
Definition scale (d : directions) : R := match d with Both => 1 | _ => 2 end.

Section CoinFlip.
Context {Output : Type} (m : @pair Output) (rule : Output -> guess) (d : directions) (g : R -> R).
Hypothesis is_pair : proper_pair m.
Hypothesis rule_keeps : keeps d rule.
Hypothesis is_curve : curve g.
Hypothesis claim : satisfies g m.

Let says1 y := match rule y with Guess1 => true | _ => false end.
Let says0 y := match rule y with Guess0 => true | _ => false end.

Lemma chance_right_split : chance_right m rule = (chance (on1 m) says1 + chance (on0 m) says0) / 2.
Proof.
  unfold chance_right, mean_round, chance, right, says1, says0. simpl. f_equal; f_equal; apply mean_eq; intros y; now destruct (rule y).
Qed.

Lemma chance_wrong_split : chance_wrong m rule = (chance (on0 m) says1 + chance (on1 m) says0) / 2.
Proof.
  unfold chance_wrong, mean_round, chance, wrong, says1, says0. simpl. rewrite (Rplus_comm (mean (on0 m) _)).
  f_equal; f_equal; apply mean_eq; intros y; now destruct (rule y).
Qed.

Lemma never : forall (l : law Output) event, (forall y, event y = false) -> chance l event = 0.
Proof.
  intros l event H. unfold chance. rewrite (mean_eq _ l _ (fun _ => 0 * 1 + 0 * 1)), mean_linear; [ring|].
  intros y. rewrite H. simpl. ring.
Qed.

(** Theorem (a): scale * P[right] <= g(scale * P[wrong]). *)
Theorem coin_flip : scale d * chance_right m rule <= g (scale d * chance_wrong m rule).
Proof.
  rewrite chance_right_split, chance_wrong_split.
  destruct (claim says1) as [H1 _]. destruct (claim says0) as [_ H0].
  destruct is_pair as [P1 P0].
  destruct d; simpl scale; simpl in rule_keeps.
  - pose proof (concave g is_curve (chance (on0 m) says1) (chance (on1 m) says0) (1 / 2)
      ltac:(now apply chance_bounds) ltac:(now apply chance_bounds) ltac:(lra)) as H.
    replace (1 * ((chance (on0 m) says1 + chance (on1 m) says0) / 2))
      with (1 / 2 * chance (on0 m) says1 + (1 - 1 / 2) * chance (on1 m) says0) by field.
    lra.
  - assert (forall y, says0 y = false) as Hno by (intros y; unfold says0; specialize (rule_keeps y); now destruct (rule y)).
    rewrite !(never _ says0 Hno). replace (2 * ((chance (on0 m) says1 + 0) / 2)) with (chance (on0 m) says1) by field. lra.
  - assert (forall y, says1 y = false) as Hno by (intros y; unfold says1; specialize (rule_keeps y); now destruct (rule y)).
    rewrite !(never _ says1 Hno). replace (2 * ((0 + chance (on1 m) says0) / 2)) with (chance (on1 m) says0) by field. lra.
Qed.

(** The point of frequency [s] and accuracy [theta] lies on the curve or above it. *)
Definition beyond (s theta : R) : Prop :=
  1 <= theta \/ 0 < s /\ theta <= 1 /\ g (scale d * s * (1 - theta)) <= scale d * s * theta.

(** The limit of the accuracy: theta0(s_L) >= theta if s_L <= s. *)
Theorem accuracy_limit : forall s_low theta0,
  beyond s_low theta0 -> s_low <= frequency m rule -> accuracy m rule <= theta0.
Proof.
  intros s_low theta0 Hbeyond Hlow.
  destruct (accuracy_spec m rule is_pair) as (Hc & Hw & Hprob).
  destruct Hbeyond as [H1|(Hs & H1 & Hg)]; [unfold probability in *; lra|].
  apply Rnot_lt_le. intros Hlt.
  set (s := frequency m rule) in *. set (theta := accuracy m rule) in *.
  assert (Hscale : 1 <= scale d) by (destruct d; simpl; lra).
  (* The ray from the origin to the point of the mechanism stays below the curve. *)
  assert (Hray : scale d * s_low * theta <= g (scale d * s_low * (1 - theta))).
  { pose proof coin_flip as H. rewrite Hc, Hw in H. fold s theta in H.
    assert (Hsub : 0 <= s_low / s <= 1).
    { split; [apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat; lra]|].
      apply Rmult_le_reg_r with s; [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
    unfold probability in Hprob.
    assert (0 <= scale d * (s * (1 - theta))) by (repeat apply Rmult_le_pos; lra).
    pose proof (concave g is_curve (scale d * (s * (1 - theta))) 0 (s_low / s) ltac:(lra) ltac:(lra) Hsub) as Hconcave.
    replace (s_low / s * (scale d * (s * (1 - theta))) + (1 - s_low / s) * 0)
      with (scale d * s_low * (1 - theta)) in Hconcave by (field; lra).
    pose proof (nonnegative_at_0 g is_curve).
    assert (s_low / s * (scale d * (s * theta)) <= s_low / s * g (scale d * (s * (1 - theta))))
      by (apply Rmult_le_compat_l; lra).
    replace (s_low / s * (scale d * (s * theta))) with (scale d * s_low * theta) in * by (field; lra).
    pose proof (Rmult_le_pos (1 - s_low / s) (g 0)). lra. }
  assert (Hpos : 0 < scale d * s_low) by (apply Rmult_lt_0_compat; lra).
  pose proof (increasing g is_curve (scale d * s_low * (1 - theta)) (scale d * s_low * (1 - theta0))) as Hrise.
  unfold probability in Hprob.
  assert (0 <= scale d * s_low * (1 - theta)) by (apply Rmult_le_pos; lra).
  assert (scale d * s_low * theta0 < scale d * s_low * theta) by (apply Rmult_lt_compat_l; lra).
  assert (scale d * s_low * (1 - theta) <= scale d * s_low * (1 - theta0)) by (apply Rmult_le_compat_l; lra).
  lra.
Qed.
End CoinFlip.

(** The (epsilon, delta) case: P[right] <= e^epsilon P[wrong] + delta k / 2. *)
Theorem coin_flip_approximate : forall Output (m : @pair Output) rule d epsilon delta,
  proper_pair m -> keeps d rule -> 0 <= delta -> approximate_dp epsilon delta m ->
  chance_right m rule <= exp epsilon * chance_wrong m rule + delta / scale d.
Proof.
  intros Output m rule d epsilon delta Hm Hd Hdelta Hclaim.
  pose proof (coin_flip m rule d _ Hm Hd (line_is_curve epsilon delta Hdelta) Hclaim) as H. cbv beta in H.
  destruct d; simpl scale in *; lra.
Qed.

(** Its limit of the accuracy: 1 - (1 - delta k / 2 / s) / (1 + e^epsilon), and 1 if s <= delta k / 2. *)
Theorem beyond_approximate : forall d epsilon delta s theta0, 0 < s -> theta0 <= 1 ->
  (1 - theta0) * (1 + exp epsilon) <= 1 - delta / scale d / s -> beyond d (fun q => exp epsilon * q + delta) s theta0.
Proof.
  intros d epsilon delta s theta0 Hs H1 H. right. repeat split; trivial.
  assert (Hscale : 1 <= scale d) by (destruct d; simpl; lra).
  pose proof (Rmult_le_compat_l (scale d * s) _ _ ltac:(left; apply Rmult_lt_0_compat; lra) H) as H'.
  replace (scale d * s * (1 - delta / scale d / s)) with (scale d * s - delta) in H' by (field; lra). lra.
Qed.

(** For pure differential privacy the limit does not depend on the frequency. *)
Theorem accuracy_limit_pure : forall Output (m : @pair Output) rule epsilon theta0,
  proper_pair m -> approximate_dp epsilon 0 m -> (1 - theta0) * (1 + exp epsilon) <= 1 -> accuracy m rule <= theta0.
Proof.
  intros Output m rule epsilon theta0 Hm Hclaim H.
  destruct (accuracy_spec m rule Hm) as (_ & _ & Hprob). destruct (frequency_is_probability m rule Hm) as [Hs _].
  destruct (Rle_lt_dec 1 theta0) as [|Hlt]; [unfold probability in *; lra|].
  destruct Hs as [Hs|Hs].
  - apply accuracy_limit with (d := Both) (g := fun q => exp epsilon * q + 0) (s_low := frequency m rule); simpl; trivial; try lra.
    + apply line_is_curve. lra.
    + apply beyond_approximate; trivial; [lra|]. simpl. unfold Rdiv. lra.
  - unfold accuracy. rewrite <- Hs.
    replace (chance_right m rule) with 0; [unfold Rdiv; rewrite Rmult_0_l|].
    + apply Rnot_lt_le. intros Hneg. pose proof (exp_pos epsilon). nra.
    + pose proof (chance_right_nonnegative m rule Hm). pose proof (chance_wrong_nonnegative m rule Hm). unfold frequency in Hs. lra.
Qed.

(** The mirrored line: the claim for complements, with the datasets exchanged, is a second curve of the same claim. *)
Lemma chance_complement : forall Output (l : law Output) event, proper l -> chance l (fun y => negb (event y)) = 1 - chance l event.
Proof.
  intros Output l event [_ H1]. unfold chance. rewrite <- H1.
  replace (mean l (fun _ => 1) - _) with (mean l (fun y => 1 * 1 + (-1) * indicator (event y))) by (rewrite mean_linear; ring).
  apply mean_eq. intros y. destruct (event y); simpl; ring.
Qed.

Theorem mirrored_line : forall Output (m : @pair Output) epsilon delta, proper_pair m -> approximate_dp epsilon delta m ->
  satisfies (fun q => exp (- epsilon) * q + (1 - (1 - delta) * exp (- epsilon))) m.
Proof.
  intros Output m epsilon delta [P1 P0] H event. destruct (H (fun y => negb (event y))) as [H1 H0].
  rewrite !chance_complement in H1, H0 by trivial.
  assert (He : exp (- epsilon) * exp epsilon = 1) by (rewrite <- exp_plus, Rplus_opp_l; apply exp_0).
  pose proof (exp_pos (- epsilon)) as Hpos.
  apply (Rmult_le_compat_l (exp (- epsilon))) in H1; [|lra]. apply (Rmult_le_compat_l (exp (- epsilon))) in H0; [|lra].
  rewrite Rmult_plus_distr_l, <- Rmult_assoc, He in H1, H0. split; lra.
Qed.
