(** * Combination of stages: each stage's event is chosen on the rounds before it

    The conditional error is the part of the error that a stage leaves to later stages. *)

From Coq Require Import Reals Lra Lia List Arith.
From Kernel Require Import Binomial Rounds Conditional.
Import ListNotations.
Open Scope R_scope.

(** [average level a b] is the mean over [a, b] of a conditional error function A(level, u), 0 <= u <= 1: A falls in u,
    rises with the level, and its mean over [0, 1] is at most the level. The inverse normal method is the function
    A(u) = Phi((Phi^-1(level) + r Phi^-1(1 - u)) / sqrt(1 - r^2)); its mean is the level (not proved here). *)
Record error_function (average : R -> R -> R -> R) : Prop := {
  unit_interval : forall level a b, probability level -> 0 <= a -> a <= b -> b <= 1 -> probability (average level a b);
  is_average : forall level a b e, probability level -> 0 <= a -> a <= b -> b <= e -> e <= 1 ->
    (b - a) * average level a b + (e - b) * average level b e = (e - a) * average level a e;
  mean_is_level : forall level, probability level -> average level 0 1 <= level;
  falls : forall level a b a' b', probability level -> 0 <= a -> a <= b -> a <= a' -> b <= b' -> a' <= b' -> b' <= 1 ->
    average level a' b' <= average level a b;
  rises : forall level level' a b, 0 <= level -> level <= level' -> level' <= 1 -> 0 <= a -> a <= b -> b <= 1 ->
    average level a b <= average level' a b }.

(** A stage without weight leaves the error as it is. *)
Lemma no_weight : error_function (fun level _ _ => level).
Proof. split; unfold probability; intros; lra. Qed.

(** The interval of the p-value of a binomial count has the mean [level], like a uniform p-value. *)
Lemma average_of_interval : forall average n p level, error_function average -> probability p -> probability level ->
  expectation n p (fun c => average level (tail n (S c) p) (tail n c p)) <= level.
Proof.
  intros average n p level HA Hp Hlevel.
  assert (Hmass : forall c, (c <= n)%nat -> mass n p c = tail n c p - tail n (S c) p).
  { intros c Hc. unfold tail. rewrite <- (Rmult_1_l (expectation n p (fun j => indicator (c <=? j)%nat))).
    replace (1 * expectation n p (fun j => indicator (c <=? j)%nat) - expectation n p (fun j => indicator (S c <=? j)%nat))
      with (1 * expectation n p (fun j => indicator (c <=? j)%nat) + (-1) * expectation n p (fun j => indicator (S c <=? j)%nat)) by ring.
    rewrite <- expectation_linear.
    rewrite (expectation_eq n p _ (fun j => indicator (Nat.eqb j c))).
    2:{ intros j _. destruct (Nat.leb_spec c j), (Nat.leb_spec (S c) j), (Nat.eqb_spec j c); simpl; lra || lia. }
    unfold expectation.
    assert (Hsum : forall d, sum_f_R0 (fun j => mass n p j * indicator (Nat.eqb j c)) d = if (c <=? d)%nat then mass n p c else 0).
    { induction d as [|d IH].
      - simpl. destruct c; simpl; ring.
      - rewrite tech5, IH. destruct (Nat.eqb_spec (S d) c) as [<-|].
        + rewrite (proj2 (Nat.leb_gt (S d) d)), Nat.leb_refl by lia. simpl. ring.
        + destruct (Nat.leb_spec c d), (Nat.leb_spec c (S d)); try lia; simpl; ring. }
    rewrite Hsum. now rewrite (proj2 (Nat.leb_le c n)). }
  assert (Htelescope : forall d, (d <= n)%nat ->
    sum_f_R0 (fun c => mass n p c * average level (tail n (S c) p) (tail n c p)) d
    = (1 - tail n (S d) p) * average level (tail n (S d) p) 1).
  { induction d as [|d IH]; intros Hd.
    - simpl sum_f_R0. rewrite Hmass, tail_all by lia. reflexivity.
    - rewrite tech5, IH, Hmass by lia.
      pose proof (tail_bounds n (S (S d)) p Hp). pose proof (tail_bounds n (S d) p Hp).
      pose proof (tail_falls_in_successes n (S d) (S (S d)) p Hp ltac:(lia)).
      rewrite <- (is_average average HA level (tail n (S (S d)) p) (tail n (S d) p) 1) by (trivial; lra). ring. }
  unfold expectation. rewrite Htelescope, tail_none by lia.
  pose proof (mean_is_level average HA level Hlevel). lra.
Qed.

Section Stages.
Context {Output : Type}.

(** A plan chooses each stage's pair, guess rule, number of rounds and weight from all earlier rounds, with their coins
    and outputs. It may stop at any time, which makes no statement. Random choices can be made before the first round. *)
Inductive plan :=
  | Stop
  | Last (m : @pair Output) (rule : Output -> guess) (n : nat)
  | Stage (m : @pair Output) (rule : Output -> guess) (n : nat) (average : R -> R -> R -> R) (next : list (@round Output) -> plan).

(** The plan has at most [stages] stages, and its parts are of the kinds that their names say. *)
Fixpoint valid (stages : nat) (p : plan) : Prop :=
  match p, stages with
  | Stop, _ => True
  | Last m _ _, S _ => proper_pair m
  | Stage m _ _ average next, S others => proper_pair m /\ error_function average /\ forall l, valid others (next l)
  | _, O => False
  end.

(** Expectation of a function of the rounds of all stages. *)
Fixpoint mean_plan (p : plan) (f : list (list (@round Output)) -> R) : R :=
  match p with
  | Stop => f []
  | Last m _ n => mean_rounds m n (fun l => f [l])
  | Stage m _ n _ next => mean_rounds m n (fun l => mean_plan (next l) (fun history => f (l :: history)))
  end.

(** The stage's counts are honest, and theta0 is computed from a limit of the frequency at error gamma. *)
Definition stage_limit (m : @pair Output) rule n l gamma (k : counts) (theta0 : R) : Prop :=
  honest rule l k /\ probability theta0 /\
  exists s_low, frequency_limit n k gamma s_low /\ (s_low <= frequency m rule -> accuracy m rule <= theta0).

(** The counts refute the claim at the error [level]: the conditional error passes from stage to stage. *)
Fixpoint refutes (gamma : R) (p : plan) (history : list (list (@round Output))) (level : R) : Prop :=
  match p, history with
  | Last m rule n, l :: _ => exists k theta0, stage_limit m rule n l gamma k theta0 /\ tail (guesses k) (correct k) theta0 <= level
  | Stage m rule n average next, l :: later => exists k theta0 left, stage_limit m rule n l gamma k theta0
      /\ 0 <= left <= average level (tail (guesses k) (S (correct k)) theta0) (tail (guesses k) (correct k) theta0)
      /\ refutes gamma (next l) later left
  | _, _ => False
  end.

Lemma mean_rounds_constant : forall (m : @pair Output) n a, proper_pair m -> mean_rounds m n (fun _ => a) = a.
Proof.
  intros m n a Hm. induction n as [|n IH]; simpl; [easy|].
  rewrite (mean_round_eq m _ (fun _ => a)) by (intros; apply IH). now apply mean_round_constant.
Qed.

Lemma mean_plan_at_most_1 : forall p stages f, valid stages p -> (forall h, f h <= 1) -> mean_plan p f <= 1.
Proof.
  induction p as [|m rule n|m rule n average next IH]; intros [|stages] f Hp Hf; simpl in *; try easy.
  - rewrite <- (mean_rounds_constant m n 1 Hp). apply mean_rounds_le; auto.
  - destruct Hp as (Hm & _ & Hnext). rewrite <- (mean_rounds_constant m n 1 Hm). apply mean_rounds_le; trivial.
    intros l _. apply (IH l stages); auto.
Qed.

Lemma tail_interval : forall n k p, probability p -> 0 <= tail n (S k) p /\ tail n (S k) p <= tail n k p /\ tail n k p <= 1.
Proof.
  intros n k p Hp. pose proof (tail_bounds n (S k) p Hp). pose proof (tail_bounds n k p Hp).
  pose proof (tail_falls_in_successes n k (S k) p Hp ltac:(lia)). lra.
Qed.

(** A larger conditional error refutes too. *)
Lemma refutes_at_larger_level : forall gamma p stages h level level', valid stages p ->
  refutes gamma p h level -> 0 <= level -> level <= level' -> level' <= 1 -> refutes gamma p h level'.
Proof.
  intros gamma [|m rule n|m rule n average next] [|stages] [|l h] level level' Hp Hr H0 H H1; simpl in *; try easy.
  - destruct Hr as (k & theta0 & Hlimit & Htail). exists k, theta0. split; [trivial|lra].
  - destruct Hr as (k & theta0 & left & Hlimit & Hleft & Hlater). exists k, theta0, left.
    destruct Hp as (_ & HA & _). pose proof (tail_interval (guesses k) (correct k) theta0 (proj1 (proj2 Hlimit))) as (? & ? & ?).
    pose proof (rises average HA level level' (tail (guesses k) (S (correct k)) theta0) (tail (guesses k) (correct k) theta0)
      H0 H H1 ltac:(lra) ltac:(lra) ltac:(lra)).
    split; [exact Hlimit|]. split; [lra|exact Hlater].
Qed.

(** Theorem (d): given any past, and for any choices that depend on it, the claim is refuted with chance at most
    [level], plus gamma for the frequency limit of each stage. *)
Theorem stages_valid : forall gamma p stages level (accepts : list (list (@round Output)) -> bool), 0 <= gamma -> valid stages p ->
  probability level -> (forall h, accepts h = true -> refutes gamma p h level) ->
  mean_plan p (fun h => indicator (accepts h)) <= level + INR stages * gamma.
Proof.
  intros gamma p. induction p as [|m rule n|m rule n average next IH]; intros stages level accepts Hgamma Hp [H0 H1] Haccepts; simpl.
  - destruct (accepts []) eqn:E; [now apply Haccepts in E|]. simpl. pose proof (Rmult_le_pos _ _ (pos_INR stages) Hgamma). lra.
  - destruct stages as [|others]; simpl in Hp; [easy|].
    apply Rle_trans with (level + gamma).
    2:{ rewrite S_INR. pose proof (Rmult_le_pos _ _ (pos_INR others) Hgamma). lra. }
    apply (conditional_test_valid m rule n Hp (level + gamma) gamma (fun l => accepts [l])); [lra|].
    intros l E. apply Haccepts in E. destruct E as (k & theta0 & (Hk & Hprob & s_low & Hs & Hle) & Htail).
    exists k. split; trivial. exists s_low, theta0. repeat split; try apply Hs; try apply Hprob; trivial. lra.
  - destruct stages as [|others]; simpl in Hp; [easy|]. destruct Hp as (Hm & HA & Hnext).
    pose proof (Rmult_le_pos _ _ (pos_INR others) Hgamma) as Hothers.
    set (C := count (right rule)). set (M := fun l => (C l + count (wrong rule) l)%nat). set (theta := accuracy m rule).
    assert (Htheta : probability theta) by now apply accuracy_spec.
    set (left := fun l => average level (tail (M l) (S (C l)) theta) (tail (M l) (C l) theta)).
    assert (Hleft : forall l, probability (left l)).
    { intros l. destruct (tail_interval (M l) (C l) theta Htheta) as (? & ? & ?). now apply unit_interval. }
    apply Rle_trans with (mean_rounds m n (fun l => 1 * (if limit_fails_dec m rule n gamma l then 1 else 0)
                                              + 1 * (1 * left l + INR others * gamma * 1))).
    + apply mean_rounds_le; trivial. intros l _. destruct (Hleft l) as [Hl0 Hl1].
      destruct (limit_fails_dec m rule n gamma l) as [|Hfine].
      * apply Rle_trans with 1; [|lra]. apply (mean_plan_at_most_1 _ others); trivial. intros h. apply indicator_bounds.
      * apply Rle_trans with (left l + INR others * gamma); [|lra].
        apply (IH l others (left l) (fun h => accepts (l :: h))); trivial.
        intros h E. apply Haccepts in E. destruct E as (k & theta0 & rest & (Hk & Hprob & s_low & Hs & Hle) & [Hr0 Hr] & Hlater).
        apply (refutes_at_larger_level gamma (next l) others h rest); trivial.
        apply Rle_trans with (1 := Hr).
        assert (Hlimit : theta <= theta0) by (apply Hle; eapply limit_holds; eassumption).
        destruct (tail_interval (M l) (C l) theta Htheta) as (? & ? & ?).
        destruct (tail_interval (guesses k) (correct k) theta0 Hprob) as (? & ? & ?).
        apply falls; trivial; [now split| |now apply (p_value_of_counts m rule Hm)].
        destruct Hk as (Hright & _ & _ & Hall).
        eapply Rle_trans; [apply tail_rises_in_trials; [trivial|apply Hall]|].
        eapply Rle_trans; [apply (tail_falls_in_successes _ (S (correct k))); [trivial|apply le_n_S, Hright]|].
        now apply tail_monotone.
    + rewrite !mean_rounds_linear, (mean_rounds_constant m n 1 Hm).
      pose proof (limit_fails_rarely m rule n Hm gamma Hgamma) as Hfail.
      assert (Hmean : mean_rounds m n left <= level).
      { unfold left, M, C.
        rewrite (law_of_counts m rule n (fun c g => average level (tail g (S c) theta) (tail g c theta)) Hm).
        apply Rle_trans with (expectation n (frequency m rule) (fun _ => level)); [|rewrite expectation_constant; lra].
        apply expectation_le; [now apply frequency_is_probability|]. intros g _. apply average_of_interval; trivial. now split. }
      rewrite S_INR. lra.
Qed.
End Stages.
