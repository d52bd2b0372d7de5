(** * Decoding of a witness, part 3: neighboring datasets

    The definitions of neighboring datasets below do not count records: they are those of textbooks, by permutations and
    by positions. [check_records] counts, as checker.py does. The theorem: what is accepted is a pair of neighbors. *)

From Coq Require Import Bool Ascii String ZArith NArith Lia List Permutation.
From Kernel Require Import Decoding Datasets.
Import ListNotations.
Open Scope list_scope.

Inductive relation := ReplaceOne | AddRemove.

(** ** Definitions *)

Section Definitions.
Context {A : Type} (most : nat).

(** Multisets: the datasets have some records in common, and the others are replaced (or added, or removed). *)
Definition replace_some (D0 D1 : list A) : Prop := ~ Permutation D0 D1 /\ exists common out new,
  Permutation D0 (common ++ out) /\ Permutation D1 (common ++ new) /\ List.length out = List.length new /\ List.length out <= most.

Definition add_or_remove_some (D0 D1 : list A) : Prop := ~ Permutation D0 D1 /\ exists common out new,
  Permutation D0 (common ++ out) /\ Permutation D1 (common ++ new) /\ List.length out + List.length new <= most.

(** Sequences: the datasets are equal at all positions outside of a list of positions. *)
Definition replace_positions (D0 D1 : list A) : Prop := D0 <> D1 /\ List.length D0 = List.length D1 /\
  exists changed : list nat, List.length changed <= most /\ forall i, ~ In i changed -> nth_error D0 i = nth_error D1 i.
End Definitions.

Definition neighbors (r : relation) (is_ordered : bool) (most : N) (D0 D1 : list record) : Prop :=
  match r, is_ordered with
  | AddRemove, _ => add_or_remove_some (N.to_nat most) D0 D1
  | ReplaceOne, true => replace_positions (N.to_nat most) D0 D1
  | ReplaceOne, false => replace_some (N.to_nat most) D0 D1
  end.

(** ** The check, by counts *)

Definition decimal_eq_dec (d e : decimal) : {d = e} + {d <> e}.
Proof. decide equality; [apply Z.eq_dec|apply N.eq_dec|apply bool_dec]. Defined.
Definition cell_eq_dec (c d : cell) : {c = d} + {c <> d}.
Proof. decide equality; [apply Z.eq_dec|apply decimal_eq_dec|apply string_dec]. Defined.
Definition record_eq_dec (r s : record) : {r = s} + {r <> s}.
Proof. decide equality; [apply cell_eq_dec|apply (list_eq_dec cell_eq_dec)..]. Defined.
Definition dtype_eq_dec (t u : dtype) : {t = u} + {t <> u}.
Proof. decide equality. Defined.
Definition about_eq_dec (a b : about) : {a = b} + {a <> b}.
Proof. decide equality; try apply (list_eq_dec Z.eq_dec). apply dtype_eq_dec. Defined.

Definition same {A} (eq_dec : forall a b : A, {a = b} + {a <> b}) (a b : A) : bool := if eq_dec a b then true else false.

(** Copies of a record, and by how many copies a dataset exceeds another one. *)
Definition total (r : record) (t : list (record * N)) : N := sum (map (fun rn => if same record_eq_dec (fst rn) r then snd rn else 0%N) t).
Definition distinct (t : list (record * N)) : list record := nodup record_eq_dec (map fst t).
Definition surplus (t u : list (record * N)) : N := sum (map (fun r => total r t - total r u)%N (distinct t)).

(** Number of positions at which two lists differ. *)
Fixpoint changes (l l' : list record) : N :=
  match l, l' with
  | r :: rest, r' :: rest' => ((if same record_eq_dec r r' then 0 else 1) + changes rest rest')%N
  | _, _ => 0%N
  end.

Definition check_records (r : relation) (most : N) (d0 d1 : dataset) : bool :=
  let removed := surplus (table d0) (table d1) in
  let added := surplus (table d1) (table d0) in
  let apart := match r with
               | AddRemove => (removed + added)%N
               | ReplaceOne => if in_order d0 then changes (map fst (table d0)) (map fst (table d1)) else removed
               end in
  same about_eq_dec (shared d0) (shared d1) && Bool.eqb (in_order d0) (in_order d1)
  && match r with AddRemove => true | ReplaceOne => (removed =? added)%N end
  && (0 <? apart)%N && (apart <=? most)%N.

(** ** The check is right *)

Lemma total_first : forall r s n t, total r ((s, n) :: t) = ((if record_eq_dec s r then n else 0) + total r t)%N.
Proof. intros. unfold total, same. simpl. now destruct (record_eq_dec s r). Qed.

Lemma count_expand : forall t r, count_occ record_eq_dec (expand t) r = N.to_nat (total r t).
Proof.
  induction t as [|[s n] t IH]; intros r; simpl; [easy|]. rewrite count_occ_app, IH, total_first. destruct (record_eq_dec s r) as [->|Hn].
  - rewrite count_occ_repeat_eq by trivial. lia.
  - rewrite count_occ_repeat_neq by congruence. lia.
Qed.

Definition spread (keys : list record) (f : record -> nat) : list record := flat_map (fun r => repeat r (f r)) keys.

Lemma count_spread : forall keys f r, NoDup keys ->
  count_occ record_eq_dec (spread keys f) r = if in_dec record_eq_dec r keys then f r else 0.
Proof.
  intros keys f r H. induction H as [|s keys Hs H IH]; [easy|]. simpl. rewrite count_occ_app. fold (spread keys f). rewrite IH.
  destruct (record_eq_dec s r) as [->|Hn].
  - rewrite count_occ_repeat_eq by trivial. destruct (in_dec record_eq_dec r keys); [easy|lia].
  - rewrite count_occ_repeat_neq by congruence. now destruct (in_dec record_eq_dec r keys).
Qed.

Lemma length_spread : forall keys f, N.of_nat (List.length (spread keys f)) = sum (map (fun r => N.of_nat (f r)) keys).
Proof. induction keys as [|r keys IH]; intros f; simpl; [easy|]. rewrite app_length, repeat_length. fold (spread keys f). specialize (IH f). lia. Qed.

Lemma not_distinct : forall r t, ~ In r (distinct t) -> total r t = 0%N.
Proof.
  intros r t H. unfold distinct in H. rewrite nodup_In in H. induction t as [|[s n] t IH]; [easy|]. rewrite total_first. simpl in H.
  destruct (record_eq_dec s r) as [->|]; [tauto|]. apply IH. tauto.
Qed.

Definition only_in (t u : list (record * N)) : list record := spread (distinct t) (fun r => N.to_nat (total r t - total r u)).
Definition in_both (t u : list (record * N)) : list record := spread (distinct t) (fun r => N.to_nat (N.min (total r t) (total r u))).

Lemma count_only_in : forall t u r, count_occ record_eq_dec (only_in t u) r = N.to_nat (total r t - total r u).
Proof.
  intros t u r. unfold only_in. rewrite count_spread by apply NoDup_nodup. destruct (in_dec _ _ _) as [|H]; [easy|].
  apply not_distinct in H. lia.
Qed.

Lemma count_in_both : forall t u r, count_occ record_eq_dec (in_both t u) r = N.to_nat (N.min (total r t) (total r u)).
Proof.
  intros t u r. unfold in_both. rewrite count_spread by apply NoDup_nodup. destruct (in_dec _ _ _) as [|H]; [easy|].
  apply not_distinct in H. lia.
Qed.

Lemma length_only_in : forall t u, N.of_nat (List.length (only_in t u)) = surplus t u.
Proof. intros t u. unfold only_in, surplus. rewrite length_spread. f_equal. apply map_ext. intros r. lia. Qed.

Lemma split_by_counts : forall t u,
  Permutation (expand t) (in_both t u ++ only_in t u) /\ Permutation (expand u) (in_both t u ++ only_in u t).
Proof.
  intros t u. rewrite !(Permutation_count_occ record_eq_dec). split; intros r;
    rewrite count_occ_app, count_expand, count_in_both, count_only_in; lia.
Qed.

Lemma equal_without_surplus : forall t u, Permutation (expand t) (expand u) -> surplus t u = 0%N.
Proof.
  intros t u H. rewrite <- length_only_in. replace (only_in t u) with (@nil record); [easy|].
  symmetry. apply (count_occ_inv_nil record_eq_dec). intros r. rewrite count_only_in. rewrite (Permutation_count_occ record_eq_dec) in H.
  specialize (H r). rewrite !count_expand in H. lia.
Qed.

Lemma changes_positions : forall l l', List.length l = List.length l' -> exists changed : list nat,
  N.of_nat (List.length changed) = changes l l' /\ forall i, ~ In i changed -> nth_error l i = nth_error l' i.
Proof.
  induction l as [|r l IH]; intros [|r' l'] H; try easy; [now exists []|]. injection H as H. destruct (IH l' H) as (changed & Hl & Hc).
  cbn [changes]. unfold same. destruct (record_eq_dec r r') as [->|Hn].
  - exists (map S changed). rewrite map_length. split; [lia|]. intros [|i] Hi; [easy|]. apply Hc. intros Hin. now apply Hi, in_map.
  - exists (0 :: map S changed). cbn [List.length]. rewrite map_length. split; [lia|]. intros [|i] Hi; [now destruct Hi; left|].
    apply Hc. intros Hin. apply Hi. right. now apply in_map.
Qed.

Lemma changes_same : forall l, changes l l = 0%N.
Proof. induction l as [|r l IH]; [easy|]. cbn [changes]. unfold same. rewrite IH. now destruct (record_eq_dec r r). Qed.

(** A dataset in order has one copy of each record. *)
Definition plain (d : dataset) : Prop := in_order d = true -> records d = map fst (table d).

Lemma one_each_plain : forall l o a, plain {| table := one_each l; in_order := o; shared := a |}.
Proof. intros l o a _. unfold records. simpl. rewrite expand_one_each. unfold one_each. now rewrite map_map, map_id. Qed.

Lemma decode_dataset_plain : forall round j d, decode_dataset round j = Some d -> plain d.
Proof.
  intros round j d. destruct j as [ | | z | r | | l | fields]; cbn [decode_dataset numeric option_map]; try easy.
  - intros [= <-]. now apply (one_each_plain [Single (Integer z)]).
  - intros [= <-]. now apply (one_each_plain [Single (Double r)]).
  - destruct (decode_list l); [|easy]. intros [= <-]. apply one_each_plain.
  - destruct (decode_array round (Object fields)) as [a|]; [intros [= <-]; apply one_each_plain|]. unfold decode_object.
    destruct (_ && _); [|easy]. destruct (lookup _ _) as [[ | | | | | |inner]|]; try easy. destruct (has_fields _ _ _); [|easy].
    destruct (field_array round "x" inner) as [x|]; [|easy]. destruct (field_array round "y" inner) as [y|]; [|easy].
    destruct (field_array round "multiplicity" inner) as [m|]; [|easy]. unfold decode_examples.
    destruct (dtype_of x), (dtype_of y), (dtype_of m), (other_axes x) as [|columns [|]], (other_axes y), (other_axes m); try easy.
    destruct (finite_rows x); [|easy]. destruct (finite_rows y); [|easy]. destruct (all_some _); [|easy]. destruct (_ && _); [|easy].
    now intros [= <-].
Qed.

Theorem check_records_sound : forall r most d0 d1, plain d0 -> plain d1 -> check_records r most d0 d1 = true ->
  shared d0 = shared d1 /\ in_order d0 = in_order d1 /\ neighbors r (in_order d0) most (records d0) (records d1).
Proof.
  intros r most d0 d1 P0 P1 H. unfold check_records in H. rewrite !andb_true_iff, N.ltb_lt, N.leb_le, eqb_true_iff in H.
  destruct H as ((((Hshared & Horder) & Hequal) & Hpositive) & Hmost).
  unfold same at 1 in Hshared. destruct (about_eq_dec _ _) as [Ha|]; [|easy]. split; [trivial|split; [trivial|]].
  destruct (split_by_counts (table d0) (table d1)) as [H0 H1].
  pose proof (length_only_in (table d0) (table d1)) as L0. pose proof (length_only_in (table d1) (table d0)) as L1.
  assert (Hsymmetric : Permutation (records d0) (records d1) ->
      surplus (table d0) (table d1) = 0%N /\ surplus (table d1) (table d0) = 0%N).
  { intros H. split; apply equal_without_surplus; [trivial|now apply Permutation_sym]. }
  destruct r; simpl.
  - apply N.eqb_eq in Hequal. destruct (in_order d0) eqn:O0.
    + specialize (P0 O0). specialize (P1 (eq_sym Horder)).
      assert (Hlength : List.length (records d0) = List.length (records d1)).
      { apply Permutation_length in H0, H1. fold (records d0) in H0. fold (records d1) in H1. rewrite app_length in H0, H1. lia. }
      rewrite <- P0, <- P1 in Hpositive, Hmost. destruct (changes_positions _ _ Hlength) as (changed & Hl & Hc).
      split; [intros He; rewrite He, changes_same in Hpositive; lia|]. split; [trivial|]. exists changed. split; [lia|trivial].
    + split; [intros H; apply Hsymmetric in H; lia|]. exists (in_both (table d0) (table d1)), (only_in (table d0) (table d1)),
        (only_in (table d1) (table d0)). repeat split; trivial; lia.
  - split; [intros H; apply Hsymmetric in H; lia|]. exists (in_both (table d0) (table d1)), (only_in (table d0) (table d1)),
      (only_in (table d1) (table d0)). repeat split; trivial; lia.
Qed.

(** ** The pair of a witness *)

Definition decode_most (t : text) : option N :=
  match t with
  | [] => Some 1%N
  | _ => match after (letters ":k=") t with
         | Some (c :: k) =>
           if forallb is_digit (c :: k) && negb (Ascii.eqb c "0") && (List.length k <? 6)%nat then Some (natural (c :: k)) else None
         | _ => None
         end
  end.

Definition decode_relation (s : string) : option (relation * N) :=
  match after (letters "replace-one") (letters s), after (letters "add-remove") (letters s) with
  | Some rest, _ => option_map (pair ReplaceOne) (decode_most rest)
  | None, Some rest => option_map (pair AddRemove) (decode_most rest)
  | None, None => None
  end.

Record pair_of_datasets := { relation_of : relation; most : N; first : dataset; second : dataset }.

(** Two lists must have records of one kind. *)
Definition one_kind (j0 j1 : json) : bool := match j0, j1 with Items l0, Items l1 => is_some (decode_list (l0 ++ l1)) | _, _ => true end.

Definition is_text (j : option json) : bool := match j with Some (Text _) => true | _ => false end.

Definition decode_pair (round : decimal -> option decimal) (j : json) : option pair_of_datasets :=
  match j with
  | Object fields =>
    match has_fields ["d0"; "d1"; "relation"; "why"]%string [] fields && is_text (lookup "why" fields),
          lookup "relation" fields, lookup "d0" fields, lookup "d1" fields with
    | true, Some (Text s), Some j0, Some j1 =>
      match decode_relation s, decode_dataset round j0, decode_dataset round j1 with
      | Some (r, k), Some d0, Some d1 =>
        if one_kind j0 j1 && check_records r k d0 d1 then Some {| relation_of := r; most := k; first := d0; second := d1 |} else None
      | _, _, _ => None
      end
    | _, _, _, _ => None
    end
  | _ => None
  end.

Definition are_neighbors (r : relation) (k : N) (d0 d1 : dataset) : Prop :=
  shared d0 = shared d1 /\ in_order d0 = in_order d1 /\ neighbors r (in_order d0) k (records d0) (records d1).

(** An accepted pair holds the datasets that its fields encode, and they are neighbors in the sense of the relation. *)
Theorem decode_pair_spec : forall round j p, decode_pair round j = Some p ->
  are_neighbors (relation_of p) (most p) (first p) (second p)
  /\ exists fields s j0 j1, j = Object fields
     /\ lookup "relation" fields = Some (Text s) /\ decode_relation s = Some (relation_of p, most p)
     /\ lookup "d0" fields = Some j0 /\ decode_dataset round j0 = Some (first p)
     /\ lookup "d1" fields = Some j1 /\ decode_dataset round j1 = Some (second p).
Proof.
  intros round [ | | | | | |fields] p; try easy. unfold decode_pair. destruct (_ && _); [|easy].
  destruct (lookup "relation" fields) as [[ | | | |s| | ]|] eqn:Hr; try easy.
  destruct (lookup "d0" fields) as [j0|] eqn:H0; [|easy]. destruct (lookup "d1" fields) as [j1|] eqn:H1; [|easy].
  destruct (decode_relation s) as [[r k]|] eqn:Hs; [|easy].
  destruct (decode_dataset round j0) as [d0|] eqn:D0; [|easy]. destruct (decode_dataset round j1) as [d1|] eqn:D1; [|easy].
  destruct (_ && _) eqn:E; [|easy]. intros [= <-]. apply andb_true_iff in E as [_ E]. simpl. split.
  - apply check_records_sound; trivial; eapply decode_dataset_plain; eassumption.
  - now exists fields, s, j0, j1.
Qed.
