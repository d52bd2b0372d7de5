(** * The binomial law: upper tail, monotonicity, and validity of its p-value

    [tail n k p] is P[Bin(n, p) >= k], the exact p-value of k successes in n trials. *)

From Coq Require Import Reals Lra Lia Arith.
Open Scope R_scope.

(** Pascal's triangle. *)
Fixpoint binomial (n k : nat) : nat :=
  match n, k with
  | _, O => 1
  | O, S _ => 0
  | S n', S k' => binomial n' k' + binomial n' k
  end.

(** P[Bin(n, p) = k]. *)
Definition mass (n : nat) (p : R) (k : nat) : R := INR (binomial n k) * p ^ k * (1 - p) ^ (n - k).

(** E[f(X)] for X ~ Bin(n, p). *)
Definition expectation (n : nat) (p : R) (f : nat -> R) : R := sum_f_R0 (fun k => mass n p k * f k) n.

(** 1 if the condition is true, 0 otherwise. The probability of an event is the expectation of its indicator. *)
Definition indicator (b : bool) : R := if b then 1 else 0.

(** P[Bin(n, p) >= k]. *)
Definition tail (n k : nat) (p : R) : R := expectation n p (fun j => indicator (k <=? j)%nat).

Definition probability (p : R) : Prop := 0 <= p <= 1.

Lemma indicator_bounds : forall b, 0 <= indicator b <= 1.
Proof. intros [|]; simpl; lra. Qed.

Lemma binomial_above : forall n k, (n < k)%nat -> binomial n k = O.
Proof.
  induction n as [|n IH]; intros [|k] H; simpl; try lia.
  rewrite !IH; lia.
Qed.

Lemma binomial_0 : forall n, binomial n 0 = 1%nat.
Proof. now intros [|n]. Qed.

Lemma mass_above : forall n p k, (n < k)%nat -> mass n p k = 0.
Proof. intros. unfold mass. rewrite binomial_above by lia. simpl. ring. Qed.

Lemma mass_0 : forall n p, mass (S n) p 0 = (1 - p) * mass n p 0.
Proof. intros. unfold mass. rewrite !binomial_0, !Nat.sub_0_r. simpl. ring. Qed.

(** The last trial is a success or a failure. *)
Lemma mass_S : forall n p k, mass (S n) p (S k) = p * mass n p k + (1 - p) * mass n p (S k).
Proof.
  intros n p k. unfold mass. replace (binomial (S n) (S k)) with (binomial n k + binomial n (S k))%nat by reflexivity.
  rewrite plus_INR.
  destruct (Nat.lt_ge_cases k n) as [H|H].
  - replace (S n - S k)%nat with (S (n - S k)) by lia.
    replace (n - k)%nat with (S (n - S k)) by lia. simpl. ring.
  - rewrite (binomial_above n (S k)) by lia. replace (S n - S k)%nat with (n - k)%nat by lia. simpl. ring.
Qed.

Lemma mass_nonnegative : forall n p k, probability p -> 0 <= mass n p k.
Proof.
  intros n p k [H0 H1]. unfold mass.
  repeat apply Rmult_le_pos; try apply pos_INR; apply pow_le; lra.
Qed.

Lemma expectation_0 : forall p f, expectation 0 p f = f O.
Proof. intros. unfold expectation, mass. simpl. ring. Qed.

Lemma expectation_linear : forall n p f g a b,
  expectation n p (fun k => a * f k + b * g k) = a * expectation n p f + b * expectation n p g.
Proof.
  intros n p f g a b. unfold expectation. rewrite 2!scal_sum, <- plus_sum. apply sum_eq. intros. ring.
Qed.

(** Condition on one trial. *)
Lemma expectation_S : forall n p f,
  expectation (S n) p f = p * expectation n p (fun k => f (S k)) + (1 - p) * expectation n p f.
Proof.
  intros n p f.
  assert (H : (1 - p) * expectation n p f
              = mass (S n) p 0 * f O + sum_f_R0 (fun k => (1 - p) * (mass n p (S k) * f (S k))) n).
  { unfold expectation. rewrite (scal_sum _ n (1 - p)).
    transitivity (sum_f_R0 (fun k => mass n p k * f k * (1 - p)) (S n)).
    - rewrite tech5, mass_above by lia. ring.
    - rewrite decomp_sum by lia. simpl (pred (S n)). rewrite mass_0. f_equal; [ring|]. apply sum_eq. intros. ring. }
  rewrite H. unfold expectation at 1 2. rewrite decomp_sum by lia. simpl (pred (S n)).
  rewrite (scal_sum _ n p).
  rewrite (sum_eq _ (fun k => mass n p k * f (S k) * p + (1 - p) * (mass n p (S k) * f (S k))))
    by (intros; rewrite mass_S; ring).
  rewrite plus_sum. ring.
Qed.

Lemma expectation_le : forall n p f g, probability p ->
  (forall k, (k <= n)%nat -> f k <= g k) -> expectation n p f <= expectation n p g.
Proof.
  intros n p f g Hp H. apply sum_Rle. intros k Hk. apply Rmult_le_compat_l; auto using mass_nonnegative.
Qed.

Lemma expectation_eq : forall n p f g, (forall k, (k <= n)%nat -> f k = g k) -> expectation n p f = expectation n p g.
Proof. intros n p f g H. apply sum_eq. intros k Hk. now rewrite H. Qed.

Lemma expectation_constant : forall n p a, expectation n p (fun _ => a) = a.
Proof.
  induction n as [|n IH]; intros p a.
  - apply expectation_0.
  - rewrite expectation_S, !IH. ring.
Qed.

(** ** The tail *)

Lemma tail_all : forall n p, tail n 0 p = 1.
Proof. intros. exact (expectation_constant n p 1). Qed.

Lemma tail_none : forall n k p, (n < k)%nat -> tail n k p = 0.
Proof.
  intros n k p H. unfold tail. rewrite <- (expectation_constant n p 0).
  apply expectation_eq. intros j Hj. now rewrite (proj2 (Nat.leb_gt k j)) by lia.
Qed.

Lemma tail_S : forall n k p, tail (S n) (S k) p = p * tail n k p + (1 - p) * tail n (S k) p.
Proof. intros. unfold tail. now rewrite expectation_S. Qed.

Lemma tail_bounds : forall n k p, probability p -> 0 <= tail n k p <= 1.
Proof.
  intros n k p Hp. split.
  - rewrite <- (expectation_constant n p 0). apply expectation_le; auto. intros; apply indicator_bounds.
  - rewrite <- (expectation_constant n p 1). apply expectation_le; auto. intros; apply indicator_bounds.
Qed.

(** More successes are less likely. *)
Lemma tail_falls_in_successes : forall n k k' p, probability p -> (k <= k')%nat -> tail n k' p <= tail n k p.
Proof.
  intros n k k' p Hp H. apply expectation_le; auto. intros j _.
  destruct (Nat.leb_spec k' j), (Nat.leb_spec k j); simpl; lra || lia.
Qed.

(** Theorem (b): the tail rises with the success probability. *)
Theorem tail_monotone : forall n k p q, probability p -> probability q -> p <= q -> tail n k p <= tail n k q.
Proof.
  induction n as [|n IH]; intros k p q Hp Hq Hpq.
  - unfold tail. rewrite !expectation_0. lra.
  - destruct k as [|k]; [rewrite !tail_all; lra|]. rewrite !tail_S.
    pose proof (IH k p q Hp Hq Hpq). pose proof (IH (S k) p q Hp Hq Hpq).
    pose proof (tail_falls_in_successes n k (S k) q Hq ltac:(lia)).
    unfold probability in *. nra.
Qed.

(** More trials make k successes more likely. *)
Lemma tail_rises_in_trials : forall n n' k p, probability p -> (n <= n')%nat -> tail n k p <= tail n' k p.
Proof.
  intros n n' k p Hp H. induction H as [|n' _ IH]; [lra|].
  apply Rle_trans with (1 := IH). destruct k as [|k]; [rewrite !tail_all; lra|]. rewrite tail_S.
  pose proof (tail_falls_in_successes n' k (S k) p Hp ltac:(lia)). unfold probability in *. nra.
Qed.

(** The p-value is valid: P[tail(n, X, p) <= a] <= a for X ~ Bin(n, p). *)
Theorem p_value_valid : forall n p a, probability p -> 0 <= a ->
  expectation n p (fun k => if Rle_dec (tail n k p) a then 1 else 0) <= a.
Proof.
  intros n p a Hp Ha.
  assert (Hmin : forall d, (exists k, (k <= d)%nat /\ tail n k p <= a /\ forall j, (j < k)%nat -> a < tail n j p)
                 \/ forall j, (j <= d)%nat -> a < tail n j p).
  { induction d as [|d [H|H]].
    - destruct (Rle_lt_dec (tail n 0 p) a) as [H|H].
      + left. exists O. repeat split; trivial; intros; lia.
      + right. intros j Hj. now replace j with O by lia.
    - left. destruct H as (k & Hk & H). exists k. split; [lia|trivial].
    - destruct (Rle_lt_dec (tail n (S d) p) a) as [Hd|Hd].
      + left. exists (S d). repeat split; trivial. intros j Hj. apply H. lia.
      + right. intros j Hj. destruct (Nat.eq_dec j (S d)) as [->|]; [easy|apply H; lia]. }
  destruct (Hmin n) as [(k & Hk & Hka & Hbefore)|Hnone].
  - apply Rle_trans with (2 := Hka). apply expectation_le; auto. intros j _.
    destruct (Rle_dec (tail n j p) a) as [Hj|]; [|apply indicator_bounds].
    destruct (Nat.leb_spec k j) as [|Hlt]; simpl; [lra|]. specialize (Hbefore j Hlt). lra.
  - apply Rle_trans with (expectation n p (fun _ => a)); [|rewrite expectation_constant; lra].
    apply expectation_le; auto. intros j Hj.
    specialize (Hnone j Hj). destruct (Rle_dec (tail n j p) a); lra.
Qed.
