(** * The integer algorithm of checker.py: its result is at least the binomial tail

    [side] and [tail_bound] are the functions [side] and [tail] of checker.py, in the same order of operations. The loop
    of [side] is a recursion over a number of steps, [fuel]. The theorem is true for each [fuel]: the algorithm may stop
    after any step. *)

From Coq Require Import Reals Lra Lia ZArith Bool.
From Kernel Require Import Binomial Weights.
Open Scope Z_scope.

Fixpoint side (fuel : nat) (n first last a c stop j low high sum_low sum_high : Z) : Z * Z :=
  let finish := (sum_low, sum_high + Z.max 0 (last - Z.max j (first - 1)) * high) in
  match fuel with
  | O => finish
  | S fuel' =>
    if (j <? n) && (stop <? high) then
      let up := (n - j) * a in
      let down := (j + 1) * c in
      let low' := low * up / down in
      let high' := - (- high * up / down) in
      let inside := (first <=? j + 1) && (j + 1 <=? last) in
      side fuel' n first last a c stop (j + 1) low' high' (sum_low + low') (if inside then sum_high + high' else sum_high)
    else finish
  end.

(** An integer U with P[Bin(n, a / (a + c)) >= k] <= U / one. *)
Definition tail_bound (fuel : nat) (n k a c one stop : Z) : Z :=
  let mode := (n + 1) * a / (a + c) in
  let (low_above, high_above) := side fuel n k n a c stop mode one one 0 0 in
  let (low_below, high_below) := side fuel n 0 (n - k) c a stop (n - mode) one one 0 0 in
  let upper := high_above + high_below + (if k <=? mode then one else 0) in
  let lower := low_above + low_below + one in
  Z.min one (- (- upper * one / lower)).

Lemma floor_le : forall x y, 0 < y -> x / y * y <= x.
Proof. intros x y H. rewrite Z.mul_comm. now apply Z.mul_div_le. Qed.

Lemma ceiling_ge : forall x y, 0 < y -> x <= - (- x / y) * y.
Proof. intros x y H. pose proof (floor_le (- x) y H). lia. Qed.

Open Scope R_scope.

Section Walk.
Context (n : nat) (a c one start first last : Z).
Hypothesis a_positive : (0 < a)%Z.
Hypothesis c_positive : (0 < c)%Z.
Hypothesis one_positive : (0 < one)%Z.
Hypothesis start_in_range : (0 <= start <= Z.of_nat n)%Z.
Hypothesis beyond_mode : ((Z.of_nat n - start) * a <= (start + 1) * c)%Z.
Let p := IZR a / IZR (a + c).
Let w := weight n p.
Let inside i := ((start <? i) && ((first <=? i) && (i <=? last)))%Z.

Let p_is_probability : probability p.
Proof.
  apply IZR_lt in a_positive. apply IZR_lt in c_positive. unfold p, probability. rewrite plus_IZR. split.
  - apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat; lra].
  - apply Rmult_le_reg_r with (IZR a + IZR c); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.

Lemma weight_step : forall j, (start <= j < Z.of_nat n)%Z -> w (j + 1) * IZR ((j + 1) * c) = w j * IZR ((Z.of_nat n - j) * a).
Proof. intros j H. apply weight_ratio; [now apply IZR_lt|now apply IZR_lt|lia]. Qed.

(** Weights fall beyond the mode. *)
Lemma weights_fall : forall j i, (start <= j)%Z -> (j <= i)%Z -> w i <= w j.
Proof.
  intros j i Hj Hi. replace i with (j + Z.of_nat (Z.to_nat (i - j)))%Z by lia.
  induction (Z.to_nat (i - j)) as [|d IH].
  - rewrite Z.add_0_r. lra.
  - apply Rle_trans with (2 := IH). set (k := (j + Z.of_nat d)%Z). replace (j + Z.of_nat (S d))%Z with (k + 1)%Z by lia.
    assert (Hw : 0 <= w k) by now apply chance_that_nonnegative.
    destruct (Z.lt_ge_cases k (Z.of_nat n)) as [Hk|Hk].
    + assert (H : ((Z.of_nat n - k) * a <= (k + 1) * c)%Z) by nia. apply IZR_le in H.
      pose proof (weight_step k ltac:(lia)) as Hstep.
      assert (Hdown : 0 < IZR ((k + 1) * c)) by (apply IZR_lt; nia).
      apply Rmult_le_reg_r with (1 := Hdown). rewrite Hstep. now apply Rmult_le_compat_l.
    + unfold w at 1. rewrite weight_outside by lia. exact Hw.
Qed.

(** What [side] returns: bounds in units of the weight at [start]. *)
Definition encloses (bounds : Z * Z) : Prop :=
  (0 <= fst bounds)%Z
  /\ IZR (fst bounds) * w start <= IZR one * chance_that n p (fun i => start <? i)%Z
  /\ IZR one * chance_that n p inside <= IZR (snd bounds) * w start.

Theorem side_encloses : forall fuel stop j low high sum_low sum_high,
  (start <= j <= Z.of_nat n)%Z -> (0 <= low)%Z -> (0 <= sum_low)%Z ->
  IZR low * w start <= IZR one * w j -> IZR one * w j <= IZR high * w start ->
  IZR sum_low * w start <= IZR one * chance_that n p (fun i => (start <? i) && (i <=? j))%Z ->
  IZR one * chance_that n p (fun i => inside i && (i <=? j)%Z) <= IZR sum_high * w start ->
  encloses (side fuel (Z.of_nat n) first last a c stop j low high sum_low sum_high).
Proof.
  assert (Hw : 0 <= w start) by now apply chance_that_nonnegative.
  assert (Hone : 0 < IZR one) by now apply IZR_lt.
  assert (Hfinish : forall j high sum_low sum_high, (start <= j <= Z.of_nat n)%Z -> IZR one * w j <= IZR high * w start ->
    IZR sum_low * w start <= IZR one * chance_that n p (fun i => (start <? i) && (i <=? j))%Z ->
    IZR one * chance_that n p (fun i => inside i && (i <=? j)%Z) <= IZR sum_high * w start ->
    (0 <= sum_low)%Z -> encloses (sum_low, (sum_high + Z.max 0 (last - Z.max j (first - 1)) * high)%Z)).
  { intros j high sum_low sum_high Hj Hhigh Hsum_low Hsum_high Hnonnegative. split; [exact Hnonnegative|split]; simpl.
    - apply Rle_trans with (1 := Hsum_low). apply Rmult_le_compat_l; [lra|].
      apply expectation_le; trivial. intros k _. destruct (Z.ltb_spec start (Z.of_nat k)), (Z.leb_spec (Z.of_nat k) j); simpl; lra.
    - set (from := Z.max j (first - 1)).
      rewrite (chance_that_split n p inside (fun i => inside i && (i <=? j)%Z) (fun i => (from <? i) && (i <=? last))%Z).
      2:{ intros i _. unfold inside, from. destruct (Z.ltb_spec start i), (Z.leb_spec first i), (Z.leb_spec i last), (Z.leb_spec i j),
            (Z.ltb_spec (Z.max j (first - 1)) i); simpl; lra || lia. }
      pose proof (range_bound n p from last (w j) ltac:(now apply chance_that_nonnegative)
        ltac:(intros i Hi; apply weights_fall; unfold from in Hi; lia)) as Hrest.
      rewrite plus_IZR, mult_IZR.
      assert (0 <= IZR (Z.max 0 (last - from))) by (apply IZR_le; lia).
      pose proof (Rmult_le_compat_l _ _ _ (Rlt_le _ _ Hone) Hrest) as H1.
      pose proof (Rmult_le_compat_l (IZR (Z.max 0 (last - from))) _ _ ltac:(lra) Hhigh) as H2. lra. }
  induction fuel as [|fuel IH]; intros stop j low high sum_low sum_high Hj Hlow0 Hsum0 Hlow Hhigh Hsum_low Hsum_high; simpl.
  - now apply Hfinish.
  - destruct (Z.ltb_spec j (Z.of_nat n)) as [Hlt|]; simpl; [|now apply Hfinish].
    destruct (stop <? high)%Z; [|now apply Hfinish].
    set (up := ((Z.of_nat n - j) * a)%Z). set (down := ((j + 1) * c)%Z).
    assert (Hdown : (0 < down)%Z) by (unfold down; nia). assert (Hup : (0 <= up)%Z) by (unfold up; nia).
    pose proof (weight_step j ltac:(lia)) as Hstep. fold up down in Hstep.
    pose proof (floor_le (low * up) down Hdown) as Hfloor. apply IZR_le in Hfloor. rewrite 2!mult_IZR in Hfloor.
    pose proof (ceiling_ge (high * up) down Hdown) as Hceiling. rewrite <- Z.mul_opp_l in Hceiling.
    apply IZR_le in Hceiling. rewrite 2!mult_IZR in Hceiling.
    assert (Hlow0' : (0 <= low * up / down)%Z) by (apply Z.div_pos; nia).
    set (low' := (low * up / down)%Z) in *. set (high' := (- (- high * up / down))%Z) in *.
    apply IZR_lt in Hdown. apply IZR_le in Hup.
    assert (Hlow' : IZR low' * w start <= IZR one * w (j + 1)%Z).
    { apply Rmult_le_reg_r with (1 := Hdown). rewrite (Rmult_assoc (IZR one)), Hstep.
      pose proof (Rmult_le_compat_r _ _ _ Hup Hlow). pose proof (Rmult_le_compat_r _ _ _ Hw Hfloor). lra. }
    assert (Hhigh' : IZR one * w (j + 1)%Z <= IZR high' * w start).
    { apply Rmult_le_reg_r with (1 := Hdown). rewrite (Rmult_assoc (IZR one)), Hstep.
      pose proof (Rmult_le_compat_r _ _ _ Hup Hhigh). pose proof (Rmult_le_compat_r _ _ _ Hw Hceiling). lra. }
    apply IH; trivial; [lia|lia| |].
    + rewrite plus_IZR.
      rewrite (chance_that_split n p _ (fun i => (start <? i) && (i <=? j))%Z (fun i => i =? j + 1)%Z).
      2:{ intros i _. destruct (Z.ltb_spec start i), (Z.leb_spec i (j + 1)), (Z.leb_spec i j), (Z.eqb_spec i (j + 1)); simpl; lra || lia. }
      fold (weight n p (j + 1)) (w (j + 1)). lra.
    + destruct (Z.leb_spec first (j + 1)), (Z.leb_spec (j + 1) last); simpl;
        [rewrite plus_IZR, (chance_that_split n p _ (fun i => inside i && (i <=? j)%Z) (fun i => i =? j + 1)%Z);
          [fold (weight n p (j + 1)) (w (j + 1)); lra|]
        |rewrite (chance_that_eq n p _ (fun i => inside i && (i <=? j)%Z)); [lra|]..];
        intros i _; unfold inside;
        destruct (Z.ltb_spec start i), (Z.leb_spec first i), (Z.leb_spec i last), (Z.leb_spec i (j + 1)), (Z.leb_spec i j),
          (Z.eqb_spec i (j + 1)); simpl; lra || lia || reflexivity.
Qed.

Corollary side_from_start : forall fuel stop,
  encloses (side fuel (Z.of_nat n) first last a c stop start one one 0 0).
Proof.
  intros fuel stop. apply side_encloses; try lia; try lra.
  - rewrite chance_that_none; [lra|]. intros i _. destruct (Z.ltb_spec start i), (Z.leb_spec i start); simpl; lia || reflexivity.
  - rewrite chance_that_none; [lra|]. intros i _. unfold inside.
    destruct (Z.ltb_spec start i), (Z.leb_spec i start); simpl; rewrite ?andb_false_r; lia || reflexivity.
Qed.
End Walk.

(** Theorem (e): the integer result, in units of 1 / one, is at least the binomial tail. *)
Theorem tail_bound_sound : forall fuel n k a c one stop, (0 <= k <= Z.of_nat n)%Z -> (0 < a)%Z -> (0 < c)%Z -> (0 < one)%Z ->
  tail n (Z.to_nat k) (IZR a / IZR (a + c)) <= IZR (tail_bound fuel (Z.of_nat n) k a c one stop) / IZR one.
Proof.
  intros fuel n k a c one stop Hk Ha Hc Hone.
  set (p := IZR a / IZR (a + c)). set (N := Z.of_nat n). unfold tail_bound.
  set (m := ((N + 1) * a / (a + c))%Z).
  assert (Hm : (m * (a + c) <= (N + 1) * a < (m + 1) * (a + c))%Z).
  { pose proof (Z.div_mod ((N + 1) * a) (a + c) ltac:(lia)). pose proof (Z.mod_pos_bound ((N + 1) * a) (a + c) ltac:(lia)). fold m in H. lia. }
  assert (Hrange : (0 <= m <= N)%Z) by (split; [apply Z.div_pos; nia|nia]).
  assert (HaR : 0 < IZR a) by now apply IZR_lt. assert (HcR : 0 < IZR c) by now apply IZR_lt.
  assert (HoneR : 0 < IZR one) by now apply IZR_lt.
  assert (Hp : 0 < p < 1).
  { unfold p. rewrite plus_IZR. split; [apply Rdiv_lt_0_compat; lra|].
    apply Rmult_lt_reg_r with (IZR a + IZR c); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  assert (Hp' : probability p) by (unfold probability; lra).
  assert (Hmirror : 1 - p = IZR c / IZR (c + a)) by (unfold p; rewrite !plus_IZR; field; lra).
  (* The two walks, in units of the weight at the mode. *)
  destruct (side_from_start n a c one m k N Ha Hc Hone ltac:(lia) ltac:(nia) fuel stop) as (Hlow0 & Hlow & Hhigh).
  destruct (side_from_start n c a one (N - m) 0 (N - k) Hc Ha Hone ltac:(lia) ltac:(nia) fuel stop) as (Hlow0' & Hlow' & Hhigh').
  fold N in Hlow0, Hlow0', Hlow, Hhigh, Hlow', Hhigh'. fold p in Hlow, Hhigh. rewrite <- Hmirror in Hlow', Hhigh'.
  destruct (side fuel N k N a c stop m one one 0 0) as [low_above high_above].
  destruct (side fuel N 0 (N - k) c a stop (N - m) one one 0 0) as [low_below high_below]. simpl fst in *. simpl snd in *.
  assert (Hswap : forall f, chance_that n (1 - p) f = chance_that n p (fun i => f (N - i)%Z)).
  { intros f. unfold chance_that. rewrite (mirror n p). apply expectation_eq. intros i Hi. do 2 f_equal. unfold N. lia. }
  rewrite !Hswap in Hlow', Hhigh'.
  replace (weight n (1 - p) (N - m)) with (weight n p m) in Hlow', Hhigh'.
  2:{ unfold weight. rewrite Hswap. apply chance_that_eq. intros i _. destruct (Z.eqb_spec i m), (Z.eqb_spec (N - i) (N - m)); lia. }
  set (W := weight n p m) in *.
  assert (HW : 0 < W).
  { unfold W. replace m with (Z.of_nat (Z.to_nat m)) by lia. rewrite weight_mass. unfold mass.
    repeat apply Rmult_lt_0_compat; try (apply pow_lt; lra).
    change 0 with (INR 0). apply lt_INR. apply binomial_positive. lia. }
  (* Tail and total, split at the mode. *)
  assert (Htail : tail n (Z.to_nat k) p = chance_that n p (fun i => (m <? i) && ((k <=? i) && (i <=? N)))%Z
      + (indicator (k <=? m)%Z * W + chance_that n p (fun i => (N - m <? N - i) && ((0 <=? N - i) && (N - i <=? N - k)))%Z)).
  { unfold W. rewrite <- chance_that_if. rewrite <- (chance_that_split n p (fun i => (k <=? i) && (i <=? m))%Z).
    - rewrite <- (chance_that_split n p (fun i => k <=? i)%Z).
      + apply expectation_eq. intros i Hi. f_equal. destruct (Nat.leb_spec (Z.to_nat k) i), (Z.leb_spec k (Z.of_nat i)); lia.
      + intros i Hi. fold N in Hi. destruct (Z.leb_spec k i), (Z.ltb_spec m i), (Z.leb_spec i N), (Z.leb_spec i m); simpl; lra || lia.
    - intros i Hi. fold N in Hi. destruct (Z.leb_spec k i), (Z.leb_spec i m), (Z.leb_spec k m), (Z.eqb_spec i m), (Z.ltb_spec (N - m) (N - i)),
        (Z.leb_spec 0 (N - i)), (Z.leb_spec (N - i) (N - k)); simpl; lra || lia. }
  assert (Htotal : 1 = chance_that n p (fun i => m <? i)%Z + (W + chance_that n p (fun i => N - m <? N - i)%Z)).
  { unfold W, weight. rewrite <- (chance_that_split n p (fun i => i <=? m)%Z).
    - rewrite <- (chance_that_split n p (fun i => true)); [symmetry; apply (expectation_constant n p 1)|].
      intros i _. destruct (Z.ltb_spec m i), (Z.leb_spec i m); simpl; lra || lia.
    - intros i _. destruct (Z.leb_spec i m), (Z.eqb_spec i m), (Z.ltb_spec (N - m) (N - i)); simpl; lra || lia. }
  set (upper := (high_above + high_below + (if (k <=? m)%Z then one else 0))%Z).
  set (lower := (low_above + low_below + one)%Z).
  assert (Hupper : IZR one * tail n (Z.to_nat k) p <= IZR upper * W).
  { rewrite Htail. unfold upper. rewrite !plus_IZR. destruct (k <=? m)%Z; simpl indicator; lra. }
  assert (Hlower : IZR lower * W <= IZR one).
  { unfold lower. rewrite !plus_IZR. rewrite <- (Rmult_1_r (IZR one)) at 2. rewrite Htotal at 1. lra. }
  pose proof (tail_bounds n (Z.to_nat k) p Hp') as Hbounds.
  assert (Hgoal : IZR one * tail n (Z.to_nat k) p <= IZR (Z.min one (- (- upper * one / lower)))).
  2:{ apply Rmult_le_reg_l with (1 := HoneR). eapply Rle_trans; [exact Hgoal|]. right. field. lra. }
  assert (Hlower0 : (0 < lower)%Z) by (unfold lower; lia).
  pose proof (ceiling_ge (upper * one) lower Hlower0) as Hceiling. rewrite <- Z.mul_opp_l in Hceiling.
  destruct (Z.min_spec one (- (- upper * one / lower))) as [[_ ->]|[_ ->]]; [nra|].
  apply IZR_lt in Hlower0. apply IZR_le in Hceiling. rewrite 2!mult_IZR in Hceiling.
  apply Rmult_le_reg_r with (1 := Hlower0).
  assert (Hupper0 : 0 <= IZR upper).
  { apply Rmult_le_reg_r with (1 := HW). rewrite Rmult_0_l. apply Rle_trans with (2 := Hupper). apply Rmult_le_pos; lra. }
  pose proof (Rmult_le_compat_r _ _ _ (Rlt_le _ _ Hlower0) Hupper).
  pose proof (Rmult_le_compat_l _ _ _ Hupper0 Hlower). lra.
Qed.
