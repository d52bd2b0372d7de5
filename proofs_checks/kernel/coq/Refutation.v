(** * Acceptance of a witness, part 1: the test of checker.py for pure and (epsilon, delta) claims, from counts

    [refutes] follows [refutes], [p_values], [allowed] and [lines] of checker.py for one stage. EndToEnd.v has the test with one
    line above the trade-off curve. Here, the mirrored line is used too, and pure claims need no frequency of guesses. *)

From Coq Require Import Reals Lra Lia ZArith QArith Qreals Bool List.
From Kernel Require Import Binomial Rounds CoinFlip Conditional FixedPoint Decoding.
Import ListNotations.

(** Numbers of a stage. *)
Record tally := { rounds_of : Z; right_of : Z; wrong_of : Z; lost_of : Z; directions_of : Z }.

Definition counts_in (k : tally) : counts :=
  {| correct := Z.to_nat (right_of k); incorrect := Z.to_nat (wrong_of k); lost := Z.to_nat (lost_of k) |}.

Definition possible (k : tally) : Prop :=
  (0 <= right_of k /\ 0 <= wrong_of k /\ 0 <= lost_of k <= wrong_of k /\ right_of k + wrong_of k <= rounds_of k)%Z.

Section Test.
(** Units of 1 / one, where one = 2^width; an upper bound of e^x; and a search for a limit of the frequency. *)
Context (fuel : nat) (one width : Z) (exp_above : Q -> Z) (find : Z -> Z -> Z -> Z).

Definition floor (q : Q) : Z := (Qnum q * one / Zpos (Qden q))%Z.
Definition ceiling (q : Q) : Z := (- floor (- q))%Z.

Definition bit_length (z : Z) : Z := if (0 <? z)%Z then (Z.log2 z + 1)%Z else 0%Z.

(** An upper bound of the binomial tail with as many digits as a comparison with the error needs: [chance] of checker.py. *)
Definition chance (n k a c error : Z) : Z :=
  let bits := Z.min width (128 + width - bit_length error) in
  let shift := Z.max 0 (bit_length (Z.max a c) - bits) in
  let a' := (a / 2 ^ shift + (if 0 <? shift then 1 else 0))%Z in
  let c' := (c / 2 ^ shift)%Z in
  if (0 <? c')%Z && (0 <=? bits)%Z then Z.min one (tail_bound fuel n k a' c' (2 ^ bits) (2 ^ 64) * 2 ^ (width - bits)) else one.

(** Rate of wrong guesses on a line: at least this rate if the rate of guesses is [total]. *)
Definition wrong_rate (total slope start : Z) : Z := ((total - start) * one / (one + slope))%Z.

Definition mirrored_slope (slope : Z) : Z := (- (- one * one / slope))%Z.
Definition mirrored_start (slope start : Z) : Z := Z.max 0 (one - (one - start) * one / slope).

Definition spent (k : kind) (alpha : Q) : Q := match k with Pure => 0 | _ => alpha * (1 # 50) end.  (* on the frequency *)

(** Do the counts refute "epsilon is at most x" at the error alpha? Only for pure and approx claims. *)
Definition refutes (c : claim) (x : Q) (k : tally) (alpha : Q) : bool :=
  let gamma := floor (spent (kind_of c) alpha) in
  let level := floor (alpha - spent (kind_of c) alpha) in
  let slope := exp_above x in
  let start := ceiling (delta c) in
  let guesses := (right_of k + wrong_of k)%Z in
  let observed := (guesses - lost_of k)%Z in
  let s := find (rounds_of k) observed gamma in
  let at_most total c := ((0 <? c) && (0 <? total - c) && (one / 2 ^ 140 <=? level)
                          && (chance guesses (right_of k) (total - c) c level <=? level))%Z in
  match kind_of c with
  | Pure => (0 <? observed)%Z && at_most one (wrong_rate one slope 0)
  | Approx =>
    let total := (2 * s / directions_of k)%Z in
    ((0 <? s) && (s <? one) && (chance (rounds_of k) observed s (one - s) gamma <=? gamma))%Z
    && at_most total (Z.max (wrong_rate total slope start)
                            (wrong_rate total (mirrored_slope slope) (mirrored_start slope start)))
  | _ => false
  end.

Open Scope R_scope.
Hypothesis one_is_power : (one = 2 ^ width /\ 0 <= width)%Z.
Let one_positive : (0 < one)%Z. Proof. destruct one_is_power as [-> H]. lia. Qed.
Let unit_positive : 0 < IZR one := IZR_lt 0 one one_positive.

Lemma chance_sound : forall n k a c error, (0 <= k <= n)%Z -> (0 < a)%Z -> (0 < c)%Z ->
  tail (Z.to_nat n) (Z.to_nat k) (IZR a / IZR (a + c)) <= IZR (chance n k a c error) / IZR one.
Proof.
  intros n k a c error Hk Ha Hc. unfold chance. set (bits := Z.min _ _). set (shift := Z.max 0 _).
  set (a' := (a / 2 ^ shift + _)%Z). set (c' := (c / 2 ^ shift)%Z).
  assert (Hshare : forall a b, (0 < a -> 0 < b -> probability (IZR a / IZR (a + b)))%Z).
  { intros u v Hu Hv. apply IZR_lt in Hu, Hv. rewrite plus_IZR. split; [apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat; lra]|].
    apply Rmult_le_reg_r with (IZR u + IZR v); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  assert (Hall : tail (Z.to_nat n) (Z.to_nat k) (IZR a / IZR (a + c)) <= IZR one / IZR one).
  { replace (IZR one / IZR one) with 1 by (field; lra). now apply tail_bounds, Hshare. }
  destruct (_ && _) eqn:E; [|exact Hall]. apply andb_true_iff in E as [Hc' Hbits]. apply Z.ltb_lt in Hc'. apply Z.leb_le in Hbits.
  set (U := tail_bound _ _ _ _ _ _ _). destruct (Z.min_spec one (U * 2 ^ (width - bits))) as [[_ ->]|[_ ->]]; [exact Hall|].
  assert (Hpower : (0 < 2 ^ shift)%Z) by (apply Z.pow_pos_nonneg; lia).
  assert (Hodds : (0 < a' /\ a * c' <= a' * c)%Z).
  { assert (Hc2 : (c' * 2 ^ shift <= c)%Z) by now apply floor_le.
    assert (Ha2 : (a <= a' * 2 ^ shift)%Z).
    { unfold a'. destruct (Z.ltb_spec 0 shift); [|replace (2 ^ shift)%Z with 1%Z by (replace shift with 0%Z by lia; easy); rewrite Z.div_1_r; lia].
      pose proof (Z.div_mod a (2 ^ shift) ltac:(lia)). pose proof (Z.mod_pos_bound a (2 ^ shift) Hpower). lia. }
    split; nia. }
  destruct Hodds as [Ha' Hodds].
  apply Rle_trans with (tail (Z.to_nat n) (Z.to_nat k) (IZR a' / IZR (a' + c'))).
  - apply tail_monotone; [now apply Hshare..|]. apply IZR_le in Hodds. rewrite !mult_IZR in Hodds. apply IZR_lt in Ha, Hc, Ha', Hc'.
    rewrite !plus_IZR. apply Rmult_le_reg_r with ((IZR a + IZR c) * (IZR a' + IZR c')); [apply Rmult_lt_0_compat; lra|].
    replace (IZR a / (IZR a + IZR c) * ((IZR a + IZR c) * (IZR a' + IZR c'))) with (IZR a * IZR a' + IZR a * IZR c') by (field; lra).
    replace (IZR a' / (IZR a' + IZR c') * ((IZR a + IZR c) * (IZR a' + IZR c'))) with (IZR a * IZR a' + IZR a' * IZR c) by (field; lra).
    lra.
  - assert (Hunit : (0 < 2 ^ bits)%Z) by (apply Z.pow_pos_nonneg; lia).
    pose proof (tail_bound_sound fuel (Z.to_nat n) k a' c' (2 ^ bits) (2 ^ 64) ltac:(lia) Ha' Hc' Hunit) as Hsound.
    rewrite Z2Nat.id in Hsound by lia. fold U in Hsound. apply Rle_trans with (1 := Hsound). right.
    assert (Hone : (one = 2 ^ bits * 2 ^ (width - bits))%Z).
    { destruct one_is_power as [-> _]. rewrite <- Z.pow_add_r by lia. f_equal. lia. }
    assert (Hrest : (0 < 2 ^ (width - bits))%Z) by (apply Z.pow_pos_nonneg; lia). rewrite Hone, !mult_IZR. apply IZR_lt in Hunit, Hrest. field. lra.
Qed.

Lemma floor_below : forall q, IZR (floor q) <= IZR one * Q2R q.
Proof.
  intros q. unfold floor, Q2R. pose proof (floor_le (Qnum q * one) (Zpos (Qden q)) ltac:(easy)) as H. apply IZR_le in H.
  rewrite !mult_IZR in H. assert (Hd : 0 < IZR (Zpos (Qden q))) by now apply IZR_lt.
  apply Rmult_le_reg_r with (1 := Hd). apply Rle_trans with (1 := H). right. field. lra.
Qed.

Lemma ceiling_above : forall q, IZR one * Q2R q <= IZR (ceiling q).
Proof. intros q. unfold ceiling. rewrite opp_IZR. pose proof (floor_below (- q)) as H. rewrite Q2R_opp in H. lra. Qed.

Section Line.
Context {Output : Type} (m : @pair Output) (rule : Output -> guess) (d : directions).
Hypothesis laws : proper_pair m.
Hypothesis rule_keeps : keeps d rule.

(** A line above the curve, rounded up to integers, limits the accuracy. *)
Lemma line_limit : forall u v s slope start, 0 <= u -> 0 <= v -> satisfies (fun q => u * q + v) m ->
  IZR one * u <= IZR slope -> IZR one * v <= IZR start -> 0 < IZR s ->
  let total := (match d with Both => s | _ => 2 * s end)%Z in
  let c := wrong_rate total slope start in
  (0 < c)%Z -> (0 < total - c)%Z -> IZR s / IZR one <= frequency m rule -> accuracy m rule <= IZR (total - c) / IZR total.
Proof.
  intros u v s slope start Hu Hv Hclaim Hslope Hstart Hs total c Hc Ha.
  assert (Htotal : IZR total = scale d * IZR s) by (unfold total; destruct d; simpl scale; rewrite ?mult_IZR; lra).
  apply IZR_lt in Hc, Ha. rewrite minus_IZR in Ha |- *.
  assert (HT : 0 < IZR total) by lra.
  apply accuracy_limit with (d := d) (g := fun q => u * q + v); trivial.
  { split; intros; try lra. pose proof (Rmult_le_compat_l u x y Hu ltac:(lra)). lra. }
  right. repeat split.
  - now apply Rdiv_lt_0_compat.
  - apply Rmult_le_reg_r with (1 := HT). unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
  - replace (scale d * (IZR s / IZR one)) with (IZR total / IZR one) by (rewrite Htotal; field; lra).
    apply Rmult_le_reg_r with (1 := unit_positive).
    replace ((u * (IZR total / IZR one * (1 - (IZR total - IZR c) / IZR total)) + v) * IZR one)
      with (u * IZR c + IZR one * v) by (field; lra).
    replace (IZR total / IZR one * ((IZR total - IZR c) / IZR total) * IZR one) with (IZR total - IZR c) by (field; lra).
    assert (Hsum : 0 < IZR one + IZR slope) by (pose proof (Rmult_le_pos _ _ (Rlt_le _ _ unit_positive) Hu); lra).
    assert (Hfloor : IZR c * (IZR one + IZR slope) <= (IZR total - IZR start) * IZR one).
    { rewrite <- plus_IZR, <- minus_IZR, <- !mult_IZR. apply IZR_le, floor_le. apply lt_IZR. now rewrite plus_IZR. }
    assert (Hscaled : IZR c * (IZR one + IZR one * u) <= (IZR total - IZR one * v) * IZR one).
    { apply Rle_trans with (IZR c * (IZR one + IZR slope)); [apply Rmult_le_compat_l; lra|].
      apply Rle_trans with (1 := Hfloor). apply Rmult_le_compat_r; lra. }
    apply Rmult_le_reg_r with (1 := unit_positive). lra.
Qed.

(** The mirrored line of the rounded claim. *)
Lemma rounded_mirror : forall x delta slope start, approximate_dp x delta m ->
  IZR one * exp x <= IZR slope -> IZR one * delta <= IZR start ->
  satisfies (fun q => IZR one / IZR slope * q + Rmax 0 (1 - (1 - IZR start / IZR one) * (IZR one / IZR slope))) m.
Proof.
  intros x delta slope start H Hslope Hstart event.
  assert (HS : 0 < IZR slope) by (pose proof (Rmult_lt_0_compat _ _ unit_positive (exp_pos x)); lra).
  assert (Hinverse : 0 < IZR one / IZR slope) by now apply Rdiv_lt_0_compat.
  set (least := 1 - (1 - IZR start / IZR one) * (IZR one / IZR slope)). pose proof (Rmax_r 0 least) as Hmaximum.
  assert (Hside : forall p q, q <= 1 -> 1 - p <= exp x * (1 - q) + delta -> q <= IZR one / IZR slope * p + least).
  { intros p q Hq Hp. apply Rmult_le_reg_r with (1 := HS). unfold least.
    replace ((IZR one / IZR slope * p + (1 - (1 - IZR start / IZR one) * (IZR one / IZR slope))) * IZR slope)
      with (IZR slope - IZR one * (1 - p) + IZR start) by (field; lra).
    pose proof (Rmult_le_compat_l _ _ _ (Rlt_le _ _ unit_positive) Hp) as Hscaled.
    pose proof (Rmult_le_compat_r (1 - q) _ _ ltac:(lra) Hslope). lra. }
  destruct (H (fun y => negb (event y))) as [H1 H0]. rewrite !chance_complement in H1, H0 by apply laws.
  pose proof (chance_bounds _ _ event (proj1 laws)). pose proof (chance_bounds _ _ event (proj2 laws)).
  apply Hside in H1; [|lra]. apply Hside in H0; [|lra]. lra.
Qed.

(** If the counts refute x although the claim is true at x, then the counts are rare ones: those of [conditional_test]. *)
Theorem refutes_is_test : forall c x k alpha alpha_real, possible k -> refutes c x k alpha = true ->
  directions_of k = (match d with Both => 2 | _ => 1 end)%Z ->
  IZR one * exp (Q2R x) <= IZR (exp_above x) -> 0 <= Q2R (delta c) -> (kind_of c = Pure -> delta c = 0%Q) ->
  approximate_dp (Q2R x) (Q2R (delta c)) m -> Q2R alpha <= alpha_real ->
  conditional_test m rule (Z.to_nat (rounds_of k)) alpha_real
    (match kind_of c with Pure => 0 | _ => alpha_real / 50 end) (counts_in k).
Proof.
  intros c x k alpha alpha_real (Hright & Hwrong & Hlost & Hrounds) H Hdirections Hslope Hdelta Hpure Hclaim Halpha.
  pose proof (ceiling_above (delta c)) as Hstart. pose proof (floor_below (spent (kind_of c) alpha)) as Hgamma.
  pose proof (floor_below (alpha - spent (kind_of c) alpha)) as Hlevel. rewrite Q2R_minus in Hlevel.
  assert (HS : 0 < IZR (exp_above x)) by (pose proof (Rmult_lt_0_compat _ _ unit_positive (exp_pos (Q2R x))); lra).
  unfold refutes in H. set (gamma := floor (spent _ _)) in *. set (level := floor (alpha - _)) in *.
  set (slope := exp_above x) in *. set (start := ceiling (delta c)) in *.
  assert (Hshare : forall a b, (0 < a -> 0 < b -> probability (IZR a / IZR (a + b)))%Z).
  { intros a b Ha Hb. apply IZR_lt in Ha, Hb. rewrite plus_IZR. split; [apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat; lra]|].
    apply Rmult_le_reg_r with (IZR a + IZR b); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  assert (Hdivide : forall z q, IZR z <= IZR one * q -> IZR z / IZR one <= q).
  { intros z q Hz. apply Rmult_le_reg_r with (1 := unit_positive). unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  assert (Hguesses : guesses (counts_in k) = Z.to_nat (right_of k + wrong_of k)) by (unfold guesses; simpl; lia).
  assert (Htail : forall total b, (0 < b)%Z -> (0 < total - b)%Z ->
      (chance (right_of k + wrong_of k) (right_of k) (total - b) b level <= level)%Z ->
      tail (guesses (counts_in k)) (correct (counts_in k)) (IZR (total - b) / IZR total) <= IZR level / IZR one).
  { intros total b Hb Ha Hp. rewrite Hguesses. simpl correct.
    pose proof (chance_sound (right_of k + wrong_of k) (right_of k) (total - b) b level ltac:(lia) Ha Hb) as Hsound.
    replace (total - b + b)%Z with total in Hsound by lia.
    apply Rle_trans with (1 := Hsound). apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat|now apply IZR_le]. }
  destruct (kind_of c); try easy; cbn [spent] in *.
  - rewrite !andb_true_iff, !Z.ltb_lt, !Z.leb_le in H. destruct H as (Hobserved & (((Hb & Ha) & _) & Hp)).
    set (b := wrong_rate one slope 0) in *.
    exists 0, (IZR (one - b) / IZR one). split; [|split; [|split]].
    + split; [unfold probability; lra|]. unfold observed. rewrite Hguesses. simpl lost.
      assert (Hzero : forall n j, (0 < j)%nat -> tail n j 0 <= 0).
      { intros n j Hj. induction n as [|n IH]; [rewrite tail_none by lia; lra|]. destruct j as [|j]; [lia|]. rewrite tail_S. lra. }
      apply Hzero. lia.
    + intros _. rewrite Hpure, RMicromega.Q2R_0 in Hclaim by easy. apply accuracy_limit_pure with (epsilon := Q2R x); trivial.
      apply IZR_lt in Hb. apply Rmult_le_reg_r with (1 := unit_positive). rewrite minus_IZR.
      replace ((1 - (IZR one - IZR b) / IZR one) * (1 + exp (Q2R x)) * IZR one) with (IZR b * (1 + exp (Q2R x))) by (field; lra).
      assert (Hfloor : IZR b * (IZR one + IZR slope) <= IZR one * IZR one).
      { rewrite <- plus_IZR, <- !mult_IZR. apply IZR_le. replace (one * one)%Z with ((one - 0) * one)%Z by ring. apply floor_le.
        apply lt_IZR. rewrite plus_IZR. lra. }
      assert (Hscaled : IZR b * (IZR one + IZR one * exp (Q2R x)) <= IZR one * IZR one).
      { apply Rle_trans with (2 := Hfloor). apply Rmult_le_compat_l; lra. }
      apply Rmult_le_reg_r with (1 := unit_positive). lra.
    + pose proof (Hshare (one - b)%Z b Ha Hb) as Hprob. now replace (one - b + b)%Z with one in Hprob by lia.
    + apply Rle_trans with (1 := Htail one b Hb Ha Hp). apply Rle_trans with (1 := Hdivide _ _ Hlevel).
      rewrite RMicromega.Q2R_0. lra.
  - set (s := find _ _ _) in *. set (total := (2 * s / directions_of k)%Z) in *.
    set (b := Z.max _ _) in *.
    rewrite !andb_true_iff, !Z.ltb_lt, !Z.leb_le in H. destruct H as (((Hs & Hs1) & Hfrequency) & (((Hb & Ha) & _) & Hp)).
    assert (HT : total = (match d with Both => s | _ => 2 * s end)%Z).
    { unfold total. rewrite Hdirections. destruct d; [rewrite Z.mul_comm; apply Z.div_mul; lia|apply Z.div_1_r..]. }
    rewrite Q2R_mult in Hgamma, Hlevel. replace (Q2R (1 # 50)) with (/ 50) in * by (unfold Q2R; simpl; lra).
    exists (IZR s / IZR one), (IZR (total - b) / IZR total). split; [|split; [|split]].
    + split; [pose proof (Hshare s (one - s)%Z Hs ltac:(lia)) as Hprob; now replace (s + (one - s))%Z with one in Hprob by lia|].
      unfold observed. rewrite Hguesses. simpl lost.
      pose proof (chance_sound (rounds_of k) (right_of k + wrong_of k - lost_of k) s (one - s) gamma ltac:(lia) Hs ltac:(lia)) as Hsound.
      replace (s + (one - s))%Z with one in Hsound by lia.
      rewrite Z2Nat.inj_sub in Hsound by lia. apply Rle_trans with (1 := Hsound). apply Rle_trans with (IZR gamma / IZR one).
      * apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat|now apply IZR_le].
      * apply Rle_trans with (1 := Hdivide _ _ Hgamma). lra.
    + intros Hlow. assert (HsR : 0 < IZR s) by now apply IZR_lt. rewrite HT in *.
      destruct (Z.max_spec (wrong_rate total slope start) (wrong_rate total (mirrored_slope slope) (mirrored_start slope start)))
        as [[_ Hmax]|[_ Hmax]]; fold b in Hmax; rewrite HT in Hmax; rewrite Hmax in *.
      * apply (line_limit (IZR one / IZR slope) (Rmax 0 (1 - (1 - IZR start / IZR one) * (IZR one / IZR slope)))); trivial.
        -- left. now apply Rdiv_lt_0_compat.
        -- apply Rmax_l.
        -- now apply rounded_mirror with (x := Q2R x) (delta := Q2R (delta c)).
        -- unfold mirrored_slope. pose proof (ceiling_ge (one * one) slope ltac:(now apply lt_IZR)) as Hc. apply IZR_le in Hc.
           rewrite <- Z.mul_opp_l in Hc. rewrite !mult_IZR in Hc. apply Rmult_le_reg_r with (1 := HS).
           replace (IZR one * (IZR one / IZR slope) * IZR slope) with (IZR one * IZR one) by (field; lra). exact Hc.
        -- unfold mirrored_start. pose proof (floor_le ((one - start) * one) slope ltac:(now apply lt_IZR)) as Hf. apply IZR_le in Hf.
           rewrite 2!mult_IZR, minus_IZR in Hf. set (f := ((one - start) * one / slope)%Z) in *.
           pose proof (IZR_le _ _ (Z.le_max_l 0 (one - f))). pose proof (IZR_le _ _ (Z.le_max_r 0 (one - f))) as Hmaximum.
           rewrite minus_IZR in Hmaximum. unfold Rmax. destruct (Rle_dec _ _); [|lra].
           apply Rle_trans with (2 := Hmaximum). apply Rmult_le_reg_r with (1 := HS).
           replace (IZR one * (1 - (1 - IZR start / IZR one) * (IZR one / IZR slope)) * IZR slope)
             with (IZR one * IZR slope - (IZR one - IZR start) * IZR one) by (field; lra). lra.
      * apply (line_limit (exp (Q2R x)) (Q2R (delta c))); trivial. left. apply exp_pos.
    + pose proof (Hshare (total - b)%Z b Ha Hb) as Hprob. now replace (total - b + b)%Z with total in Hprob by lia.
    + apply Rle_trans with (1 := Htail total b Hb Ha Hp). apply Rle_trans with (1 := Hdivide _ _ Hlevel). lra.
Qed.
End Line.
End Test.
