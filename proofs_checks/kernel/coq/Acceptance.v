(** * Acceptance of a witness, part 2: from a JSON value to a statement, and how rarely an accepted statement is false

    [check] follows [check] and [check_counts] of checker.py for pure and approx claims, one stage of counts, and the
    relations replace-one and add-remove. Three steps that can only refuse are left out: counts that prove much more than
    the bound, an event that guesses in more directions than the counts say, and tests that take too long. So each witness
    of this kind that checker.py accepts is accepted here. *)

From Coq Require Import Bool Ascii String ZArith QArith Qreals Reals Lra Lia List.
From Kernel Require Import Binomial Rounds CoinFlip Conditional Decoding Datasets Neighbors Refutation.
Import ListNotations.
Open Scope list_scope.

(** What an accepted witness states: the claim is refuted, and epsilon exceeds [proved], on this pair, at this confidence. *)
Record statement := { claim_of : claim; pair_of : pair_of_datasets; proved : Q; confidence : Q; tally_of : tally; error_of : Q }.

Definition audit_fields : list string := ["schema_version"; "kind"; "name"; "level"; "target"; "claim"; "claim_numbers"; "pair"; "bound";
  "confidence"; "seed"; "event"; "description"; "trials"; "counts"; "sha256"]%string.
Definition audit_options : list string := ["ledger"; "source"; "versions"; "own_claim"; "scores"]%string.

Definition most_rounds : Z := (10 ^ 12)%Z.

Definition integer_field (name : string) (low high : Z) (fields : list (string * json)) : option Z :=
  match lookup name fields with Some j => in_range low high j | None => None end.

Definition decode_tally (fields : list (string * json)) : option tally :=
  if has_fields ["correct"; "wrong"; "rounds"; "directions"]%string ["alpha"; "lost"; "tested"; "stages"]%string fields
     && match lookup "stages" fields with None | Some (Items []) => true | _ => false end
     && match lookup "tested" fields with None => true | Some j => is_some (in_range 1 most_rounds j) end then
    match integer_field "rounds" 1 most_rounds fields, integer_field "correct" 0 most_rounds fields,
          integer_field "wrong" 0 most_rounds fields, integer_field "directions" 1 2 fields,
          match lookup "lost" fields with None => Some 0%Z | Some j => in_range 0 most_rounds j end with
    | Some n, Some right, Some wrong, Some k, Some missing =>
      if (missing <=? wrong)%Z && (right + wrong <=? n)%Z && (0 <? right + wrong)%Z
      then Some {| rounds_of := n; right_of := right; wrong_of := wrong; lost_of := missing; directions_of := k |} else None
    | _, _, _, _, _ => None
    end
  else None.

Definition between (low high : Q) (q : Q) : option Q := if less low q && less q high then Some q else None.

Definition minimum (p q : Q) : Q := if Qle_bool p q then p else q.
Definition maximum (p q : Q) : Q := if Qle_bool p q then q else p.
Definition slack : Q := 1 # 1000000000.

Section Check.
Context (round : decimal -> option decimal) (fuel : nat) (one width : Z) (exp_above : Q -> Z) (find : Z -> Z -> Z -> Z).

(** The error of the test: the stated one, at most 1 - confidence up to rounding. *)
Definition decode_error (level : decimal) (fields : list (string * json)) : option Q :=
  let most := (1 - value level)%Q in
  match (match lookup "alpha" fields with
         | None => Some most
         | Some j => match number j with Some q => between 0 1 q | None => None end
         end) with
  | Some alpha => if Qle_bool alpha (most * (1 + slack)) then Some (minimum alpha most) else None
  | None => None
  end.

Definition conclude (c : claim) (p : pair_of_datasets) (bound : Q) (level : decimal) (k : tally) (alpha : Q) : option statement :=
  let low := (bound - maximum 1 bound * slack)%Q in
  if less 0 (value level) && less (value level) 1 && less (parameter c) bound && Qle_bool bound 2000
     && refutes fuel one width exp_above find c low k alpha
     && (Qle_bool (parameter c) low || refutes fuel one width exp_above find c (parameter c) k alpha)
  then Some {| claim_of := c; pair_of := p; proved := low; confidence := value level; tally_of := k; error_of := alpha |} else None.

Definition known_kind (j : option json) : bool :=
  match j with Some (Text s) => String.eqb s "black box" | _ => false end.

Definition known_level (j : option json) : bool :=
  match j with Some (Text s) => String.eqb s "value" || String.eqb s "bit" | _ => false end.

Definition check (j : json) : option statement :=
  match j with
  | Object fields =>
    match has_fields audit_fields audit_options fields && known_kind (lookup "kind" fields) && known_level (lookup "level" fields),
          lookup "claim" fields, lookup "claim_numbers" fields, lookup "pair" fields,
          lookup "bound" fields, lookup "confidence" fields, lookup "counts" fields with
    | true, Some (Text text), Some (Items numbers), Some pair, Some bound, Some (Real level), Some (Object counts) =>
      match decode_claim round text numbers, decode_pair round pair, number bound, decode_tally counts, decode_error level counts with
      | Some c, Some p, Some b, Some k, Some alpha => conclude c p b level k alpha
      | _, _, _, _, _ => None
      end
    | _, _, _, _, _, _, _ => None
    end
  | _ => None
  end.

(** What the fields of an accepted witness are. *)
Theorem check_spec : forall j s, check j = Some s -> exists fields text numbers pair bound b level counts,
  j = Object fields
  /\ lookup "claim" fields = Some (Text text) /\ lookup "claim_numbers" fields = Some (Items numbers)
  /\ decode_claim round text numbers = Some (claim_of s)
  /\ lookup "pair" fields = Some pair /\ decode_pair round pair = Some (pair_of s)
  /\ lookup "bound" fields = Some bound /\ number bound = Some b /\ proved s = (b - maximum 1 b * slack)%Q
  /\ lookup "confidence" fields = Some (Real level) /\ confidence s = value level /\ (0 < confidence s < 1)%Q
  /\ lookup "counts" fields = Some (Object counts) /\ decode_tally counts = Some (tally_of s)
  /\ decode_error level counts = Some (error_of s)
  /\ (parameter (claim_of s) < b)%Q /\ refutes fuel one width exp_above find (claim_of s) (proved s) (tally_of s) (error_of s) = true
  /\ ((parameter (claim_of s) <= proved s)%Q
      \/ refutes fuel one width exp_above find (claim_of s) (parameter (claim_of s)) (tally_of s) (error_of s) = true).
Proof.
  intros j s. destruct j as [ | | | | | |fields]; try easy. unfold check. destruct (_ && _); [|easy].
  destruct (lookup "claim" fields) as [[ | | | |text| | ]|] eqn:Hclaim; try easy.
  destruct (lookup "claim_numbers" fields) as [[ | | | | |numbers| ]|] eqn:Hnumbers; try easy.
  destruct (lookup "pair" fields) as [pair|] eqn:Hpair; [|easy].
  destruct (lookup "bound" fields) as [bound|] eqn:Hbound; [|easy].
  destruct (lookup "confidence" fields) as [[ | | |level| | | ]|] eqn:Hlevel; try easy.
  destruct (lookup "counts" fields) as [[ | | | | | |counts]|] eqn:Hcounts; try easy.
  destruct (decode_claim _ _ _) as [c|] eqn:Dclaim; [|easy]. destruct (decode_pair _ _) as [p|] eqn:Dpair; [|easy].
  destruct (number bound) as [b|] eqn:Dbound; [|easy]. destruct (decode_tally counts) as [k|] eqn:Dtally; [|easy].
  destruct (decode_error level counts) as [alpha|] eqn:Derror; [|easy].
  unfold conclude. destruct (_ && _) eqn:E; [|easy]. intros [= <-]. rewrite !andb_true_iff, orb_true_iff, !less_spec, !Qle_bool_iff in E.
  exists fields, text, numbers, pair, bound, b, level, counts. simpl. tauto.
Qed.

Lemma decode_tally_possible : forall fields k, decode_tally fields = Some k -> possible k.
Proof.
  intros fields k. unfold decode_tally. destruct (_ && _ && _); [|easy].
  assert (Hrange : forall low high j z, in_range low high j = Some z -> (low <= z)%Z).
  { intros low high [ | | z' | | | | ] z; try easy. simpl. destruct (_ && _) eqn:E; [|easy]. intros [= <-].
    apply andb_true_iff in E as [E _]. now apply Z.leb_le. }
  assert (Hfield : forall name low high z, integer_field name low high fields = Some z -> (low <= z)%Z).
  { intros name low high z. unfold integer_field. destruct (lookup name fields); [apply Hrange|easy]. }
  destruct (integer_field "rounds" _ _ _) as [n|]; [|easy]. destruct (integer_field "correct" _ _ _) as [r|] eqn:Hr; [|easy].
  destruct (integer_field "wrong" _ _ _) as [w|] eqn:Hw; [|easy]. destruct (integer_field "directions" _ _ _) as [d|]; [|easy].
  assert (Hlost : forall l, match lookup "lost" fields with None => Some 0%Z | Some j => in_range 0 most_rounds j end = Some l -> (0 <= l)%Z).
  { intros l. destruct (lookup "lost" fields); [apply Hrange|intros [= <-]; lia]. }
  destruct (match lookup "lost" fields with None => _ | Some _ => _ end) as [l|]; [|easy]. specialize (Hlost l eq_refl).
  destruct (_ && _) eqn:E; [|easy]. intros [= <-]. rewrite !andb_true_iff, !Z.leb_le in E. apply Hfield in Hr, Hw.
  unfold possible. simpl. lia.
Qed.

Lemma decode_error_below : forall level fields alpha, decode_error level fields = Some alpha -> (alpha <= 1 - value level)%Q.
Proof.
  intros level fields alpha. unfold decode_error. destruct (match lookup _ _ with None => _ | Some _ => _ end) as [q|]; [|easy].
  destruct (Qle_bool q _); [|easy]. intros [= <-]. unfold minimum. destruct (Qle_bool q (1 - value level)) eqn:E.
  - now apply Qle_bool_iff.
  - apply Qle_refl.
Qed.

(** ** A false statement is accepted rarely *)

Open Scope R_scope.

Lemma exp_rises : forall x y, x <= y -> exp x <= exp y.
Proof.
  assert (Hone : forall z, 0 <= z -> 1 <= exp z).
  { intros z Hz. unfold exp. destruct (exist_exp z) as [l Hl]. simpl.
    pose proof (sum_incr (fun i => / INR (fact i) * z ^ i) 0 l Hl) as H. simpl in H. replace 1 with (/ 1 * 1) by field. apply H.
    intros i. apply Rmult_le_pos; [left; apply Rinv_0_lt_compat, INR_fact_lt_0|now apply pow_le]. }
  intros x y H. replace y with (x + (y - x)) by ring. rewrite exp_plus. pose proof (Hone (y - x) ltac:(lra)).
  pose proof (exp_pos x). pose proof (Rmult_le_compat_l (exp x) 1 (exp (y - x)) ltac:(lra) ltac:(lra)). lra.
Qed.

Hypothesis one_is_power : (one = 2 ^ width /\ 0 <= width)%Z.
Hypothesis exp_is_above : forall x, IZR one * exp (Q2R x) <= IZR (exp_above x).

(** The mechanism: a law of outputs for each dataset. *)
Context {Output : Type} (mechanism : dataset -> law Output).
Hypothesis laws_are_laws : forall dataset, proper (mechanism dataset).

Definition on_pair (p : pair_of_datasets) : @pair Output := {| on1 := mechanism (second p); on0 := mechanism (first p) |}.

(** (epsilon, delta)-differential privacy for all neighbors under a relation. *)
Definition private (r : relation) (k : N) (epsilon delta : R) : Prop := forall d0 d1, are_neighbors r k d0 d1 ->
  approximate_dp epsilon delta {| on1 := mechanism d1; on0 := mechanism d0 |}.

(** A statement is false if the mechanism satisfies the claim that it refutes, or a claim with the epsilon that it excludes. *)
Definition false_statement (s : statement) : Prop :=
  let holds x := private (relation_of (pair_of s)) (most (pair_of s)) (Q2R x) (Q2R (delta (claim_of s))) in
  holds (parameter (claim_of s)) \/ holds (proved s).

(** An audit: n independent rounds on one pair, with an event that is fixed before, and a witness that may depend on the
    rounds in every field but the claim and the pair; if it is accepted, its counts are honest counts of these rounds. *)
Context (c : claim) (p : pair_of_datasets) (rule : Output -> guess) (d : directions) (n : nat).
Hypothesis rule_keeps_directions : keeps d rule.
Context (witness : list (@Rounds.round Output) -> json).
Hypothesis witness_is_honest : forall rounds s, check (witness rounds) = Some s ->
  claim_of s = c /\ pair_of s = p /\ Z.to_nat (rounds_of (tally_of s)) = n
  /\ directions_of (tally_of s) = (match d with Both => 2 | _ => 1 end)%Z
  /\ honest rule rounds (counts_in (tally_of s)).

(** Theorem: an accepted witness at confidence 1 - alpha or more has a false statement with probability at most alpha. *)
Theorem false_statement_is_rare : forall alpha (bad : list (@Rounds.round Output) -> bool), 0 <= alpha ->
  (forall rounds, bad rounds = true -> exists s,
    check (witness rounds) = Some s /\ 1 - alpha <= Q2R (confidence s) /\ false_statement s) ->
  mean_rounds (on_pair p) n (fun rounds => indicator (bad rounds)) <= alpha.
Proof.
  intros alpha bad Halpha Hbad.
  assert (Hlaws : proper_pair (on_pair p)) by (split; apply laws_are_laws).
  apply (conditional_test_valid (on_pair p) rule n Hlaws alpha (match kind_of c with Pure => 0 | _ => alpha / 50 end)).
  { destruct (kind_of c); lra. }
  intros rounds H. apply Hbad in H as (s & Hs & Hconfidence & Hfalse).
  destruct (witness_is_honest rounds s Hs) as (Hc & Hp & Hn & Hd & Hhonest). exists (counts_in (tally_of s)). split; [trivial|].
  apply check_spec in Hs as (fields & text & numbers & j & bound & b & level & counts & _ & _ & _ & Dclaim & _ & Dpair & _ & _ & _
    & _ & Hlevel & _ & _ & Dtally & Derror & _ & Hproved & Hclaim).
  apply decode_tally_possible in Dtally. apply decode_error_below in Derror. rewrite <- Hlevel in Derror.
  apply Qle_Rle in Derror. rewrite Q2R_minus in Derror. replace (Q2R 1) with 1 in Derror by (unfold Q2R; simpl; lra).
  apply decode_pair_spec in Dpair as (Hneighbors & _). rewrite Hp in *. rewrite Hc in *.
  assert (Hrange : 0 <= Q2R (delta c) /\ (kind_of c = Pure -> delta c = 0%Q)).
  { apply decode_claim_spec in Dclaim as H. destruct H as (_ & _ & _ & _ & _ & _ & _ & _ & _ & _ & _ & H0 & _).
    apply Qle_Rle in H0. rewrite RMicromega.Q2R_0 in H0. split; [trivial|]. intros Hpure. now apply pure_has_no_delta in Dclaim. }
  assert (Htest : forall x, refutes fuel one width exp_above find c x (tally_of s) (error_of s) = true ->
      private (relation_of p) (most p) (Q2R x) (Q2R (delta c)) ->
      conditional_test (on_pair p) rule n alpha (match kind_of c with Pure => 0 | _ => alpha / 50 end) (counts_in (tally_of s))).
  { intros x Hrefutes Hprivate. rewrite <- Hn.
    apply refutes_is_test with (fuel := fuel) (one := one) (width := width) (exp_above := exp_above) (find := find)
      (d := d) (x := x) (alpha := error_of s); try tauto; trivial; [now apply Hprivate|lra]. }
  unfold false_statement in Hfalse. rewrite Hp, Hc in Hfalse. destruct Hfalse as [Htrue|Htrue]; [|now apply (Htest (proved s))].
  destruct Hclaim as [Hbeyond|Hrefutes]; [|now apply (Htest (parameter c))].
  apply (Htest (proved s)); trivial. intros d0 d1 Hd01 event. destruct (Htrue d0 d1 Hd01 event) as [H1 H0].
  pose proof (chance_bounds _ _ event (laws_are_laws d0)) as B0. pose proof (chance_bounds _ _ event (laws_are_laws d1)) as B1.
  assert (Hexp : exp (Q2R (parameter c)) <= exp (Q2R (proved s))) by now apply exp_rises, Qle_Rle.
  simpl in *. pose proof (Rmult_le_compat_r _ _ _ (proj1 B0) Hexp). pose proof (Rmult_le_compat_r _ _ _ (proj1 B1) Hexp). lra.
Qed.
End Check.
