(** * Decoding of a witness, part 2: arrays, records, multiplicities, and neighboring datasets *)

From Coq Require Import Bool Ascii String ZArith NArith Lia List Permutation.
From Kernel Require Import Decoding.
Import ListNotations.
Open Scope list_scope.

(** ** Arrays *)

Inductive dtype := Float64 | Int64.

(** An entry: a 64-bit integer, a double, or a word (a text; or inf, -inf, nan of a [Float64] array). *)
Inductive cell := Integer (z : Z) | Double (d : decimal) | Word (s : string).

Record array := { dtype_of : dtype; first_axis : Z; other_axes : list Z; entries : list cell }.

Definition product (l : list Z) : Z := fold_right Z.mul 1%Z l.

Definition in_range (low high : Z) (j : json) : option Z :=
  match j with Whole z => if (low <=? z)%Z && (z <=? high)%Z then Some z else None | _ => None end.

Definition largest : Z := (2 ^ 1024 - 2 ^ 971)%Z.  (* the largest double *)

Definition decimal_of (z : Z) : decimal := {| negative := (z <? 0)%Z; digits := Z.abs_N z; exponent := 0 |}.

Definition text_field (name : string) (fields : list (string * json)) (expected : string) : bool :=
  match lookup name fields with Some (Text s) => String.eqb s expected | _ => false end.

Section Decoders.
Context (round : decimal -> option decimal).

Definition decode_entry (t : dtype) (j : json) : option cell :=
  match t, j with
  | Int64, _ => option_map Integer (in_range (- 2 ^ 63) (2 ^ 63 - 1) j)
  | Float64, Real d => Some (Double d)
  | Float64, Whole z => if (Z.abs z <=? largest)%Z then option_map Double (round (decimal_of z)) else None
  | Float64, Object fields =>
    if has_fields ["$type"; "value"]%string [] fields && text_field "$type" fields "float" then
      first_of (map (fun word => if text_field "value" fields word then Some (Word word) else None) ["inf"; "-inf"; "nan"]%string)
    else None
  | Float64, _ => None
  end.

Definition decode_dtype (j : option json) : option dtype :=
  match j with Some (Text s) => if String.eqb s "<f8" then Some Float64 else if String.eqb s "<i8" then Some Int64 else None | _ => None end.

Definition decode_array (j : json) : option array :=
  match j with
  | Object fields =>
    if has_fields ["$type"; "dtype"; "shape"; "value"]%string [] fields && text_field "$type" fields "array" then
      match decode_dtype (lookup "dtype" fields), lookup "shape" fields, lookup "value" fields with
      | Some t, Some (Items shape), Some (Items l) =>
        match all_some (map (in_range 0 (2 ^ 31)) shape), all_some (map (decode_entry t) l) with
        | Some (axis :: axes), Some found =>
          if (List.length axes <? 32)%nat && forallb (fun n => 0 <? n)%Z axes && (product (axis :: axes) =? Z.of_nat (List.length l))%Z
          then Some {| dtype_of := t; first_axis := axis; other_axes := axes; entries := found |} else None
        | _, _ => None
        end
      | _, _, _ => None
      end
    else None
  | _ => None
  end.

Fixpoint pieces {A} (n width : nat) (l : list A) : list (list A) :=
  match n with O => [] | S n' => firstn width l :: pieces n' width (skipn width l) end.

Definition width (a : array) : nat := Z.to_nat (Z.of_nat (List.length (entries a)) / Z.max (first_axis a) 1).
Definition rows (a : array) : list (list cell) := pieces (Z.to_nat (first_axis a)) (width a) (entries a).

Lemma pieces_spec : forall A n width (l : list A), List.length l = n * width ->
  concat (pieces n width l) = l /\ List.length (pieces n width l) = n /\ Forall (fun row => List.length row = width) (pieces n width l).
Proof.
  induction n as [|n IH]; intros width l H; simpl in *; [now destruct l|].
  destruct (IH width (skipn width l)) as (Hc & Hl & Hf); [rewrite skipn_length; lia|].
  rewrite Hc, Hl, firstn_skipn. repeat split; trivial. constructor; trivial. rewrite firstn_length. lia.
Qed.

(** An accepted array has as many entries as its shape says, all of its dtype. *)
Theorem decode_array_spec : forall j a, decode_array j = Some a ->
  Z.of_nat (List.length (entries a)) = product (first_axis a :: other_axes a)
  /\ (0 <= first_axis a)%Z /\ Forall (fun n => 0 < n)%Z (other_axes a)
  /\ exists fields l, j = Object fields /\ lookup "value" fields = Some (Items l)
     /\ map (decode_entry (dtype_of a)) l = map Some (entries a).
Proof.
  intros [ | | | | | |fields] a; try easy. unfold decode_array.
  destruct (_ && _); [|easy]. destruct (decode_dtype _) as [t|]; [|easy].
  destruct (lookup "shape" fields) as [[ | | | | |shape| ]|]; try easy.
  destruct (lookup "value" fields) as [[ | | | | |l| ]|] eqn:Hvalue; try easy.
  destruct (all_some (map _ shape)) as [[|axis axes]|] eqn:Hshape; try easy.
  destruct (all_some (map (decode_entry t) l)) as [found|] eqn:Hfound; [|easy].
  destruct (_ && _) eqn:E; [|easy]. intros [= <-]. cbn [entries first_axis other_axes dtype_of].
  apply all_some_spec in Hfound. apply all_some_spec in Hshape. rewrite !andb_true_iff in E. destruct E as [[_ Haxes] Hproduct].
  apply Z.eqb_eq in Hproduct. split; [|split; [|split]].
  - rewrite Hproduct. f_equal. apply (f_equal (@List.length _)) in Hfound. now rewrite !map_length in Hfound.
  - destruct shape as [|j shape]; [easy|]. injection Hshape as Haxis _. destruct j; try easy. simpl in Haxis.
    destruct (_ && _) eqn:E; [|easy]. injection Haxis as <-. apply andb_true_iff in E as [E _]. now apply Z.leb_le.
  - apply Forall_forall. rewrite forallb_forall in Haxes. intros n Hn. now apply Z.ltb_lt, Haxes.
  - now exists fields, l.
Qed.

Lemma product_positive : forall l, Forall (fun n => 0 < n)%Z l -> (0 < product l)%Z.
Proof. induction 1; simpl; [easy|]. change (0 < x * product l)%Z. lia. Qed.

(** Rows are consecutive parts of the entries: as many as the first axis says, and each as wide as the other axes say. *)
Theorem rows_spec : forall j a, decode_array j = Some a ->
  concat (rows a) = entries a /\ Z.of_nat (List.length (rows a)) = first_axis a
  /\ Forall (fun row => Z.of_nat (List.length row) = product (other_axes a)) (rows a).
Proof.
  intros j a H. apply decode_array_spec in H as (Hlength & Hfirst & Hothers & _).
  pose proof (product_positive _ Hothers) as Hp. change (product (first_axis a :: _)) with (first_axis a * product (other_axes a))%Z in Hlength.
  assert (Hwidth : (first_axis a = 0 \/ Z.of_nat (width a) = product (other_axes a))%Z).
  { unfold width. destruct (Z.eq_dec (first_axis a) 0) as [|Hn]; [now left|right]. rewrite Hlength, Z.max_l by lia.
    rewrite Z.mul_comm, Z.div_mul by trivial. lia. }
  unfold rows. destruct (pieces_spec _ (Z.to_nat (first_axis a)) (width a) (entries a)) as (Hc & Hl & Hf).
  { destruct Hwidth as [Hz | Hw]; [rewrite Hz in *; lia|nia]. }
  split; [trivial|split; [lia|]]. destruct Hwidth as [Hz | Hw].
  - rewrite Hz. constructor.
  - apply Forall_impl with (2 := Hf). intros row Hrow. lia.
Qed.

(** ** Records with their numbers of copies *)

Inductive record := Single (c : cell) | Row (row : list cell) | Example (x y : list cell).

(** What all records of a dataset share. *)
Inductive about := Alone | Listed | Rows (t : dtype) (axes : list Z) | Examples (axes : list Z).

Record dataset := { table : list (record * N); in_order : bool; shared : about }.

Definition numeric (j : json) : option cell :=
  match j with Whole z => Some (Integer z) | Real d => Some (Double d) | _ => None end.
Definition word (j : json) : option cell := match j with Text s => Some (Word s) | _ => None end.
Definition numeric_list (j : json) : option (list cell) := match j with Items l => all_some (map numeric l) | _ => None end.

(** A list of numbers, of texts, or of lists of numbers. *)
Definition decode_list (l : list json) : option (list record) :=
  first_of [all_some (map (fun j => option_map Single (numeric j)) l);
            all_some (map (fun j => option_map Single (word j)) l);
            all_some (map (fun j => option_map Row (numeric_list j)) l)].

Definition one_each (l : list record) : list (record * N) := map (fun r => (r, 1%N)) l.

(** A double of LabelledVectors: finite, and -0.0 means 0.0. *)
Definition finite (c : cell) : option cell :=
  match c with Double d => Some (Double (if (digits d =? 0)%N then zero else d)) | _ => None end.

Definition copies (c : cell) : option N :=
  match c with Integer z => if (1 <=? z)%Z && (z <=? 2 ^ 53)%Z then Some (Z.to_N z) else None | _ => None end.

Definition finite_rows (a : array) : option (list (list cell)) := all_some (map (fun row => all_some (map finite row)) (rows a)).

Definition decode_examples (x y multiplicity : array) : option dataset :=
  match dtype_of x, dtype_of y, dtype_of multiplicity, other_axes x, other_axes y, other_axes multiplicity with
  | Float64, Float64, Int64, [columns], [], [] =>
    match finite_rows x, finite_rows y, all_some (map copies (entries multiplicity)) with
    | Some xs, Some ys, Some numbers =>
      if (first_axis x =? first_axis y)%Z && (first_axis x =? first_axis multiplicity)%Z && (0 <? first_axis x)%Z
      then Some {| table := combine (map (fun xy => Example (fst xy) (snd xy)) (combine xs ys)) numbers;
                   in_order := false; shared := Examples [columns] |}
      else None
    | _, _, _ => None
    end
  | _, _, _, _, _, _ => None
  end.

Definition field_array (name : string) (fields : list (string * json)) : option array :=
  match lookup name fields with Some j => decode_array j | None => None end.

Definition decode_object (fields : list (string * json)) : option dataset :=
  if has_fields ["$type"; "class"; "fields"]%string [] fields && text_field "$type" fields "object"
     && text_field "class" fields "dpwitness.mechanisms:LabelledVectors" then
    match lookup "fields" fields with
    | Some (Object inner) =>
      if has_fields ["x"; "y"; "multiplicity"]%string [] inner then
        match field_array "x" inner, field_array "y" inner, field_array "multiplicity" inner with
        | Some x, Some y, Some multiplicity => decode_examples x y multiplicity
        | _, _, _ => None
        end
      else None
    | _ => None
    end
  else None.

Definition decode_dataset (j : json) : option dataset :=
  match j with
  | Whole _ | Real _ =>
    option_map (fun c => {| table := [(Single c, 1%N)]; in_order := true; shared := Alone |}) (numeric j)
  | Items l => option_map (fun found => {| table := one_each found; in_order := true; shared := Listed |}) (decode_list l)
  | Object fields =>
    match decode_array j with
    | Some a => Some {| table := one_each (map Row (rows a)); in_order := true; shared := Rows (dtype_of a) (other_axes a) |}
    | None => decode_object fields
    end
  | _ => None
  end.

(** The dataset that a table means: each record as often as its number of copies says. *)
Definition expand (t : list (record * N)) : list record := flat_map (fun rn => repeat (fst rn) (N.to_nat (snd rn))) t.
Definition records (d : dataset) : list record := expand (table d).
Definition sum (l : list N) : N := fold_right N.add 0%N l.

Lemma expand_length : forall t, N.of_nat (List.length (expand t)) = sum (map snd t).
Proof. induction t as [|[r n] t IH]; simpl; [easy|]. rewrite app_length, repeat_length. lia. Qed.

Lemma expand_one_each : forall l, expand (one_each l) = l.
Proof. induction l as [|r l IH]; simpl; [easy|]. f_equal. exact IH. Qed.

(** LabelledVectors: one example for each row of x, row of y and multiplicity; all multiplicities are positive, and the
    dataset has as many records as they sum up to. *)
Theorem decode_examples_spec : forall jx jy jm x y multiplicity d, decode_array jx = Some x -> decode_array jy = Some y ->
  decode_array jm = Some multiplicity -> decode_examples x y multiplicity = Some d ->
  Forall (fun rn => 0 < snd rn)%N (table d)
  /\ map (fun rn => Integer (Z.of_N (snd rn))) (table d) = entries multiplicity
  /\ Z.of_nat (List.length (table d)) = first_axis x
  /\ N.of_nat (List.length (records d)) = sum (map snd (table d)).
Proof.
  intros jx jy jm x y multiplicity d Hx Hy Hm. unfold decode_examples.
  apply rows_spec in Hx as (_ & Hxl & _). apply rows_spec in Hy as (_ & Hyl & _). apply decode_array_spec in Hm as (Hml & _).
  destruct (dtype_of x), (dtype_of y), (dtype_of multiplicity), (other_axes x) as [|columns [|]], (other_axes y),
    (other_axes multiplicity) eqn:Haxes; try easy.
  destruct (finite_rows x) as [xs|] eqn:Hxs; [|easy]. destruct (finite_rows y) as [ys|] eqn:Hys; [|easy].
  destruct (all_some _) as [numbers|] eqn:Hnumbers; [|easy]. destruct (_ && _) eqn:E; [|easy]. intros [= <-].
  rewrite !andb_true_iff, !Z.eqb_eq in E. destruct E as [[Exy Exm] _].
  apply all_some_spec in Hxs, Hys, Hnumbers.
  assert (Lx : List.length xs = List.length (rows x)) by (apply (f_equal (@List.length _)) in Hxs; now rewrite !map_length in Hxs).
  assert (Ly : List.length ys = List.length (rows y)) by (apply (f_equal (@List.length _)) in Hys; now rewrite !map_length in Hys).
  assert (Ln : List.length numbers = List.length (entries multiplicity))
    by (apply (f_equal (@List.length _)) in Hnumbers; now rewrite !map_length in Hnumbers).
  change (product [first_axis multiplicity]) with (first_axis multiplicity * 1)%Z in Hml.
  set (examples := map _ (combine xs ys)).
  assert (Le : List.length examples = List.length numbers) by (unfold examples; rewrite map_length, combine_length; lia).
  cbn [table records]. assert (Hsnd : map snd (combine examples numbers) = numbers).
  { clear - Le. revert numbers Le. induction examples as [|e l IH]; intros [|n ns] H; simpl in *; try easy. now rewrite IH by lia. }
  assert (Hnumber : Forall2 (fun n c => c = Integer (Z.of_N n) /\ (0 < n)%N) numbers (entries multiplicity)).
  { clear - Hnumbers. revert numbers Hnumbers. induction (entries multiplicity) as [|c l IH]; intros [|n ns] H; simpl in H; try easy.
    injection H as Hc H. constructor; [|now apply IH]. destruct c as [z| | ]; try easy. simpl in Hc.
    destruct (_ && _) eqn:E; [|easy]. injection Hc as <-. apply andb_true_iff in E as [E _]. apply Z.leb_le in E.
    split; [f_equal|]; lia. }
  split; [|split; [|split]].
  - rewrite <- (Forall_map snd (fun n => 0 < n)%N), Hsnd. clear - Hnumber. induction Hnumber; constructor; tauto.
  - rewrite <- (map_map snd (fun n => Integer (Z.of_N n))), Hsnd. clear - Hnumber. induction Hnumber as [|n c ns cs [-> _] _ IH]; simpl; congruence.
  - rewrite combine_length, Le, Nat.min_id. lia.
  - apply expand_length.
Qed.
End Decoders.
