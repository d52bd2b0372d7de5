(** * Binomial weights at integer indices: ratio of neighbors, mirror image, sums over ranges *)

From Coq Require Import Reals Lra Lia ZArith Bool.
From Kernel Require Import Binomial.
Open Scope R_scope.

Lemma binomial_ratio : forall n k, INR (S k) * INR (binomial n (S k)) = (INR n - INR k) * INR (binomial n k).
Proof.
  induction n as [|n IH]; intros k.
  - destruct k as [|k]; simpl; ring.
  - simpl (binomial (S n) (S k)). rewrite plus_INR, Rmult_plus_distr_l, IH.
    destruct k as [|k].
    + rewrite !binomial_0, (S_INR n). change (INR 1) with 1. change (INR 0) with 0. ring.
    + specialize (IH k). simpl (binomial (S n) (S k)). rewrite plus_INR, !S_INR in *. nra.
Qed.

Lemma mass_ratio : forall n p k, (k < n)%nat ->
  mass n p (S k) * (INR (S k) * (1 - p)) = mass n p k * ((INR n - INR k) * p).
Proof.
  intros n p k H. unfold mass. replace (n - k)%nat with (S (n - S k)) by lia. simpl pow.
  transitivity (INR (S k) * INR (binomial n (S k)) * (p * p ^ k * ((1 - p) * (1 - p) ^ (n - S k)))); [ring|].
  rewrite binomial_ratio. ring.
Qed.

(** n - X is binomial with parameter 1 - p. *)
Lemma mirror : forall n p f, expectation n p f = expectation n (1 - p) (fun i => f (n - i)%nat).
Proof.
  induction n as [|n IH]; intros p f.
  - now rewrite !expectation_0.
  - rewrite !expectation_S, (IH p (fun k => f (S k))), (IH p f).
    rewrite (expectation_eq n (1 - p) (fun i => f (S n - i)%nat) (fun i => f (S (n - i))))
      by (intros i Hi; f_equal; lia).
    simpl. ring.
Qed.

(** The chance of a condition on X as an integer, and P[X = z]. *)
Definition chance_that (n : nat) (p : R) (condition : Z -> bool) : R :=
  expectation n p (fun i => indicator (condition (Z.of_nat i))).
Definition weight (n : nat) (p : R) (z : Z) : R := chance_that n p (fun i => (i =? z)%Z).

Lemma chance_that_eq : forall n p f g, (forall z, (0 <= z <= Z.of_nat n)%Z -> f z = g z) -> chance_that n p f = chance_that n p g.
Proof. intros n p f g H. apply expectation_eq. intros k Hk. rewrite H by lia. reflexivity. Qed.

Lemma chance_that_nonnegative : forall n p f, probability p -> 0 <= chance_that n p f.
Proof.
  intros n p f Hp. rewrite <- (expectation_constant n p 0). apply expectation_le; trivial. intros. apply indicator_bounds.
Qed.

Lemma chance_that_split : forall n p f g h, (forall z, (0 <= z <= Z.of_nat n)%Z -> indicator (f z) = indicator (g z) + indicator (h z)) ->
  chance_that n p f = chance_that n p g + chance_that n p h.
Proof.
  intros n p f g h H. unfold chance_that.
  rewrite <- (Rmult_1_l (expectation n p (fun i => indicator (g _)))), <- (Rmult_1_l (expectation n p (fun i => indicator (h _)))).
  rewrite <- expectation_linear. apply expectation_eq. intros k Hk. rewrite H by lia. ring.
Qed.

Lemma chance_that_none : forall n p f, (forall z, (0 <= z <= Z.of_nat n)%Z -> f z = false) -> chance_that n p f = 0.
Proof.
  intros n p f H. rewrite <- (expectation_constant n p 0). apply expectation_eq. intros k Hk. now rewrite H by lia.
Qed.

Lemma weight_outside : forall n p z, (z < 0 \/ Z.of_nat n < z)%Z -> weight n p z = 0.
Proof. intros n p z H. apply chance_that_none. intros i Hi. apply Z.eqb_neq. lia. Qed.

Lemma weight_mass : forall n p k, weight n p (Z.of_nat k) = mass n p k.
Proof.
  intros n p k. destruct (Nat.le_gt_cases k n) as [H|H].
  2:{ rewrite weight_outside by lia. now rewrite mass_above. }
  unfold weight, chance_that, expectation.
  assert (Hsum : forall d, sum_f_R0 (fun i => mass n p i * indicator (Z.of_nat i =? Z.of_nat k)%Z) d
                 = if (k <=? d)%nat then mass n p k else 0).
  { induction d as [|d IH].
    - simpl. destruct k; simpl; ring.
    - rewrite tech5, IH. destruct (Z.eqb_spec (Z.of_nat (S d)) (Z.of_nat k)) as [E|E].
      + replace k with (S d) by lia. rewrite (proj2 (Nat.leb_gt (S d) d)), Nat.leb_refl by lia. simpl. ring.
      + destruct (Nat.leb_spec k d), (Nat.leb_spec k (S d)); try lia; simpl; ring. }
  rewrite Hsum. now rewrite (proj2 (Nat.leb_le k n)).
Qed.

(** weight (z + 1) / weight z = (n - z) a / ((z + 1) c) for p = a / (a + c). *)
Lemma weight_ratio : forall n a c z, 0 < IZR a -> 0 < IZR c -> (0 <= z < Z.of_nat n)%Z ->
  weight n (IZR a / IZR (a + c)) (z + 1) * IZR ((z + 1) * c) = weight n (IZR a / IZR (a + c)) z * IZR ((Z.of_nat n - z) * a).
Proof.
  intros n a c z Ha Hc Hz. rewrite plus_IZR.
  replace (z + 1)%Z with (Z.of_nat (S (Z.to_nat z))) by lia.
  replace z with (Z.of_nat (Z.to_nat z)) at 3 4 by lia. rewrite !weight_mass, !mult_IZR, minus_IZR, <- !INR_IZR_INZ.
  pose proof (mass_ratio n (IZR a / (IZR a + IZR c)) (Z.to_nat z) ltac:(lia)) as H.
  apply Rmult_eq_reg_r with (/ (IZR a + IZR c)); [|apply Rinv_neq_0_compat; lra].
  transitivity (mass n (IZR a / (IZR a + IZR c)) (S (Z.to_nat z)) * (INR (S (Z.to_nat z)) * (1 - IZR a / (IZR a + IZR c)))); [field; lra|].
  rewrite H. field. lra.
Qed.

(** A range of indices with weights at most [most] has at most its number of indices times [most]. *)
Lemma range_bound : forall n p low high most, 0 <= most -> (forall z, (low < z <= high)%Z -> weight n p z <= most) ->
  chance_that n p (fun i => (low <? i)%Z && (i <=? high)%Z) <= IZR (Z.max 0 (high - low)) * most.
Proof.
  intros n p low high most Hmost.
  destruct (Z.le_gt_cases high low) as [H|H].
  - intros _. rewrite Z.max_l by lia. rewrite chance_that_none; [lra|].
    intros z _. destruct (Z.ltb_spec low z), (Z.leb_spec z high); simpl; lia.
  - rewrite Z.max_r by lia. replace high with (low + Z.of_nat (Z.to_nat (high - low)))%Z by lia.
    generalize (Z.to_nat (high - low)) as d. clear high H. intros d.
    replace (low + Z.of_nat d - low)%Z with (Z.of_nat d) by lia.
    induction d as [|d IH]; intros Hz.
    + rewrite chance_that_none; [simpl; lra|]. intros z _. destruct (Z.ltb_spec low z), (Z.leb_spec z (low + Z.of_nat 0)); simpl; lia.
    + rewrite (chance_that_split n p _ (fun i => (low <? i)%Z && (i <=? low + Z.of_nat d)%Z) (fun i => (i =? low + Z.of_nat (S d))%Z)).
      * assert (Hd : IZR (Z.of_nat (S d)) = IZR (Z.of_nat d) + 1) by (rewrite Nat2Z.inj_succ, succ_IZR; ring).
        fold (weight n p (low + Z.of_nat (S d))). rewrite Hd.
        pose proof (Hz (low + Z.of_nat (S d))%Z ltac:(lia)). specialize (IH ltac:(intros; apply Hz; lia)).
        lra.
      * intros z _. destruct (Z.ltb_spec low z), (Z.leb_spec z (low + Z.of_nat (S d))), (Z.leb_spec z (low + Z.of_nat d)),
          (Z.eqb_spec z (low + Z.of_nat (S d))); simpl; lra || lia.
Qed.

Lemma chance_that_if : forall n p (b : bool) z, chance_that n p (fun i => b && (i =? z)%Z) = indicator b * weight n p z.
Proof.
  intros n p [|] z; simpl.
  - rewrite Rmult_1_l. reflexivity.
  - rewrite Rmult_0_l. now apply chance_that_none.
Qed.

Lemma binomial_positive : forall n k, (k <= n)%nat -> (0 < binomial n k)%nat.
Proof.
  induction n as [|n IH]; intros [|k] H; simpl; try lia. specialize (IH k ltac:(lia)). lia.
Qed.
