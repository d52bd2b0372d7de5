(** * Decoding of a witness, part 1: JSON values, numbers and the text of a claim

    Decoding.v, Datasets.v, Neighbors.v, Refutation.v and Acceptance.v follow the functions of checker.py step by step, and
    prove that what is decoded means what checker.py prints.

    Covered:
    - the text of a claim (pure, approx, gdp, zcdp), its numbers, and their agreement with [claim_numbers];
    - arrays with their shape, rows, and datasets: a number, lists, arrays, and LabelledVectors with multiplicities;
    - the relations replace-one and add-remove with their numbers of records, against definitions of neighboring datasets
      that do not count;
    - counts of one stage, alpha, confidence and bound, for pure and approx claims;
    - the theorem that an accepted witness states something false with probability at most 1 - confidence.

    Not covered, and trusted:
    - the step from the bytes of a file to a JSON value (UTF-8, grammar of JSON, limits of sizes, names that occur twice, the
      hash), and the step from a statement to the printed lines;
    - doubles: a [Real] is the shortest decimal number of its double, and [round], which returns the shortest decimal number
      of the double that is nearest to a decimal number, is a parameter. Theorems hold for every function [round];
    - the upper bound of e^x, which is a parameter with a hypothesis;
    - rdp and fdp claims, the relations l1, l2 and linf, several stages, sequential tests, Renyi cells, and the test for gdp
      and zcdp claims: the functions here return None where checker.py may accept;
    - the types of fields that have no part in the statement (name, target, seed, versions, event, ...);
    - the event guesses in as many directions as the counts say, and the counts are those of independent rounds: these are
      hypotheses of the theorem. *)

From Coq Require Import List Bool Ascii String ZArith NArith QArith Lia.
Import ListNotations.
Open Scope list_scope.

(** ** Values *)
(** The number (-1)^negative * digits * 10^exponent. The sign is kept because -0.0 and 0.0 are different entries. *)
Record decimal := { negative : bool; digits : N; exponent : Z }.

Inductive json :=
| Null
| Bool (b : bool)
| Whole (z : Z)
| Real (d : decimal)
| Text (s : string)
| Items (l : list json)
| Object (fields : list (string * json)).

Definition value (d : decimal) : Q :=
  let n := if negative d then (- Z.of_N (digits d))%Z else Z.of_N (digits d) in
  if (0 <=? exponent d)%Z then inject_Z (n * 10 ^ exponent d) else Qmake n (Z.to_pos (10 ^ (- exponent d))).

Definition zero : decimal := {| negative := false; digits := 0; exponent := 0 |}.

(** The value of a JSON number. *)
Definition number (j : json) : option Q :=
  match j with Whole z => Some (inject_Z z) | Real d => Some (value d) | _ => None end.

Fixpoint lookup (name : string) (fields : list (string * json)) : option json :=
  match fields with
  | [] => None
  | (key, j) :: rest => if String.eqb key name then Some j else lookup name rest
  end.

Definition is_some {A} (o : option A) : bool := match o with Some _ => true | None => false end.

(** All [required] names occur, and no name besides these and the [optional] ones. *)
Definition has_fields (required optional : list string) (fields : list (string * json)) : bool :=
  forallb (fun name => is_some (lookup name fields)) required
  && forallb (fun field => existsb (String.eqb (fst field)) (required ++ optional)) fields.

Fixpoint all_some {A} (l : list (option A)) : option (list A) :=
  match l with
  | [] => Some []
  | Some a :: rest => match all_some rest with Some others => Some (a :: others) | None => None end
  | None :: _ => None
  end.

Lemma all_some_spec : forall A (l : list (option A)) found, all_some l = Some found <-> l = map Some found.
Proof.
  induction l as [|[a|] l IH]; intros found; simpl.
  - split; [now intros [= <-]|]. destruct found; now intros H.
  - destruct (all_some l) as [others|].
    + split; [intros [= <-]; simpl; f_equal; now apply IH|]. destruct found as [|b found]; [easy|]. intros [= -> H].
      apply IH in H. now injection H as ->.
    + split; [easy|]. destruct found as [|b found]; [easy|]. intros [= _ H]. now apply IH in H.
  - split; [easy|]. now destruct found.
Qed.

(** ** The text of a number: whole part, fraction and power of ten *)

Definition text := list ascii.
Definition letters (s : string) : text := list_ascii_of_string s.
Definition same_text (s t : text) : bool := if list_eq_dec ascii_dec s t then true else false.

Lemma same_text_spec : forall s t, same_text s t = true <-> s = t.
Proof. intros s t. unfold same_text. now destruct (list_eq_dec ascii_dec s t). Qed.

Definition is_digit (c : ascii) : bool := (48 <=? N_of_ascii c)%N && (N_of_ascii c <=? 57)%N.
Definition natural (l : text) : N := fold_left (fun n c => 10 * n + (N_of_ascii c - 48))%N l 0%N.

Record numeral := { whole : text; fraction : text; power : option (text * text) }.  (* the power: its sign and its digits *)

Definition write (n : numeral) : text :=
  whole n ++ (match fraction n with [] => [] | f => "."%char :: f end)
  ++ match power n with None => [] | Some (sign, e) => "e"%char :: sign ++ e end.

Definition is_numeral (n : numeral) : bool :=
  forallb is_digit (whole n) && forallb is_digit (fraction n)
  && match whole n with [] => false | [_] => true | c :: _ => negb (Ascii.eqb c "0") end
  && match power n with
     | None => true
     | Some (sign, e) => (same_text sign [] || same_text sign ["+"%char] || same_text sign ["-"%char])
                         && forallb is_digit e && match e with [] => false | _ => true end
     end.

Definition meaning (n : numeral) : decimal :=
  let e := match power n with
           | None => 0%Z
           | Some (sign, e) => if same_text sign ["-"%char] then (- Z.of_N (natural e))%Z else Z.of_N (natural e)
           end in
  {| negative := false; digits := natural (whole n ++ fraction n); exponent := e - Z.of_nat (List.length (fraction n)) |}.

Fixpoint span (accept : ascii -> bool) (l : text) : text * text :=
  match l with
  | [] => ([], [])
  | c :: rest => if accept c then (c :: fst (span accept rest), snd (span accept rest)) else ([], l)
  end.

Definition parts_of_number (t : text) : numeral :=
  let (w, after) := span is_digit t in
  let (f, last) := match after with "."%char :: rest => span is_digit rest | _ => ([], after) end in
  {| whole := w; fraction := f;
     power := match last with
              | "e"%char :: "-"%char :: e => Some (["-"%char], e)
              | "e"%char :: "+"%char :: e => Some (["+"%char], e)
              | "e"%char :: e => Some ([], e)
              | _ => None
              end |}.

(** The parser proposes parts, and accepts them if they are valid and make up the text. *)
Definition read_number (t : text) : option numeral :=
  let n := parts_of_number t in if is_numeral n && same_text (write n) t then Some n else None.

Lemma span_app : forall accept l rest, forallb accept l = true -> (match rest with [] => true | c :: _ => negb (accept c) end) = true ->
  span accept (l ++ rest) = (l, rest).
Proof.
  intros accept l rest Hl Hrest. induction l as [|c l IH]; simpl in *.
  - destruct rest as [|c rest]; simpl; [easy|]. now destruct (accept c).
  - apply andb_true_iff in Hl as [Hc Hl]. now rewrite Hc, IH.
Qed.

Lemma parts_of_written : forall n, is_numeral n = true -> parts_of_number (write n) = n.
Proof.
  intros [w f p] H. unfold is_numeral in H. simpl in H. rewrite !andb_true_iff in H. destruct H as [[[Hw Hf] _] Hp].
  unfold parts_of_number, write. simpl.
  assert (Hlast : forall e : text, match p with None => True | Some (sign, e) => forallb is_digit e = true /\ e <> [] /\
      (sign = [] \/ sign = ["+"%char] \/ sign = ["-"%char]) end).
  { intros _. destruct p as [[sign e]|]; [|easy]. rewrite !andb_true_iff, !orb_true_iff, !same_text_spec in Hp.
    destruct Hp as [[Hs He] Hn]. repeat split; trivial; [now intros ->|tauto]. }
  specialize (Hlast []).
  assert (Hpower : match (match p with None => [] | Some (sign, e) => "e"%char :: sign ++ e end) with
      | "e"%char :: "-"%char :: e => Some (["-"%char], e)
      | "e"%char :: "+"%char :: e => Some (["+"%char], e)
      | "e"%char :: e => Some ([], e)
      | _ => None
      end = p).
  { destruct p as [[sign e]|]; [|easy]. destruct Hlast as (He & Hn & [-> | [-> | ->]]); simpl; trivial.
    destruct e as [|c e]; [easy|]. simpl in He. apply andb_true_iff in He as [Hc _].
    destruct c as [[] [] [] [] [] [] [] []]; easy. }
  rewrite span_app; trivial.
  - destruct f as [|c f]; simpl app.
    + destruct p as [[sign e]|]; simpl in *; [|easy]. f_equal. exact Hpower.
    + match goal with |- context [c :: f ++ ?rest] => change (c :: f ++ rest) with ((c :: f) ++ rest) end.
      cbv iota beta. rewrite span_app; trivial; [exact (f_equal (Build_numeral w (c :: f)) Hpower)|]. now destruct p as [[sign e]|].
  - destruct f; [|easy]. now destruct p as [[sign e]|].
Qed.

(** A text has one reading as a number, or none. *)
Theorem read_number_spec : forall t n, read_number t = Some n <-> is_numeral n = true /\ write n = t.
Proof.
  intros t n. unfold read_number. split.
  - destruct (is_numeral _ && _) eqn:E; [|easy]. intros [= <-]. apply andb_true_iff in E. now rewrite same_text_spec in E.
  - intros [H <-]. rewrite parts_of_written, H by trivial. simpl. now rewrite (proj2 (same_text_spec _ _) eq_refl).
Qed.

(** ** The text of a claim *)

Inductive kind := Pure | Approx | Gdp | Zcdp.

Definition name (k : kind) : text := letters match k with Pure => "pure" | Approx => "approx" | Gdp => "gdp" | Zcdp => "zcdp" end.
Definition arity (k : kind) : nat := match k with Approx => 2 | _ => 1 end.

Fixpoint join (parts : list text) : text :=
  match parts with [] => [] | [part] => part | part :: rest => part ++ ","%char :: join rest end.

Definition write_claim (k : kind) (numbers : list numeral) : text := name k ++ ":"%char :: join (map write numbers).
Definition is_claim (k : kind) (numbers : list numeral) : bool := forallb is_numeral numbers && (List.length numbers =? arity k)%nat.

(** The parts of a text between commas. *)
Fixpoint split (l : text) : list text :=
  match l with
  | [] => [[]]
  | c :: rest => if Ascii.eqb c "," then [] :: split rest
                 else match split rest with part :: parts => (c :: part) :: parts | [] => [[c]] end
  end.

Fixpoint after (prefix t : text) : option text :=
  match prefix, t with
  | [], _ => Some t
  | c :: prefix', d :: t' => if Ascii.eqb c d then after prefix' t' else None
  | _, [] => None
  end.

Definition read_claim_of (t : text) (k : kind) : option (kind * list numeral) :=
  match after (name k ++ [":"%char]) t with
  | None => None
  | Some rest =>
    match all_some (map read_number (split rest)) with
    | Some numbers => if is_claim k numbers && same_text (write_claim k numbers) t then Some (k, numbers) else None
    | None => None
    end
  end.

Definition first_of {A} (options : list (option A)) : option A :=
  fold_right (fun o rest => match o with Some _ => o | None => rest end) None options.

Definition read_claim (t : text) : option (kind * list numeral) := first_of (map (read_claim_of t) [Pure; Approx; Gdp; Zcdp]).

Lemma after_app : forall prefix t, after prefix (prefix ++ t) = Some t.
Proof. induction prefix as [|c prefix IH]; intros t; simpl; [easy|]. now rewrite Ascii.eqb_refl. Qed.

Definition no_comma (l : text) : bool := forallb (fun c => negb (Ascii.eqb c ",")) l.

Lemma split_alone : forall l, no_comma l = true -> split l = [l].
Proof.
  induction l as [|c l IH]; intros H; simpl in *; [easy|]. apply andb_true_iff in H as [Hc Hl].
  apply negb_true_iff in Hc. now rewrite Hc, IH.
Qed.

Lemma split_first : forall l rest, no_comma l = true -> split (l ++ ","%char :: rest) = l :: split rest.
Proof.
  induction l as [|c l IH]; intros rest H; simpl in *; [easy|]. apply andb_true_iff in H as [Hc Hl].
  apply negb_true_iff in Hc. now rewrite Hc, IH.
Qed.

Lemma split_join : forall parts, parts <> [] -> Forall (fun l => no_comma l = true) parts -> split (join parts) = parts.
Proof.
  induction parts as [|l [|l' parts] IH]; intros Hn H; [easy| |]; inversion_clear H; [now apply split_alone|].
  change (join (l :: l' :: parts)) with (l ++ ","%char :: join (l' :: parts)). rewrite split_first; trivial. f_equal. now apply IH.
Qed.

Lemma no_comma_app : forall l l', no_comma (l ++ l') = no_comma l && no_comma l'.
Proof. intros. apply forallb_app. Qed.

Lemma digits_no_comma : forall l, forallb is_digit l = true -> no_comma l = true.
Proof.
  unfold no_comma. intros l H. rewrite forallb_forall in *. intros c Hc. apply H in Hc.
  destruct (Ascii.eqb_spec c ","); [now subst|easy].
Qed.

Lemma number_no_comma : forall n, is_numeral n = true -> no_comma (write n) = true.
Proof.
  intros [w f p] H. unfold is_numeral in H. simpl in H. rewrite !andb_true_iff in H. destruct H as [[[Hw Hf] _] Hp].
  unfold write. simpl. rewrite !no_comma_app, digits_no_comma by trivial. simpl. apply andb_true_iff. split.
  - destruct f; [easy|]. simpl no_comma in *. now apply (digits_no_comma (_ :: _)).
  - destruct p as [[sign e]|]; [|easy]. rewrite !andb_true_iff, !orb_true_iff, !same_text_spec in Hp. destruct Hp as [[Hs He] _].
    apply digits_no_comma in He. destruct Hs as [[-> | ->] | ->]; exact He.
Qed.

(** A text has one reading as a claim, or none: no two claims are written alike, and what is read is what is written. *)
Theorem read_claim_spec : forall t k numbers, read_claim t = Some (k, numbers) <-> is_claim k numbers = true /\ write_claim k numbers = t.
Proof.
  intros t k numbers. split.
  - assert (Hone : forall k', read_claim_of t k' = Some (k, numbers) -> is_claim k numbers = true /\ write_claim k numbers = t).
    { intros k'. unfold read_claim_of. destruct (after _ t) as [rest|]; [|easy]. destruct (all_some _) as [found|]; [|easy].
      destruct (is_claim k' found && _) eqn:E; [|easy]. intros [= -> ->]. apply andb_true_iff in E. now rewrite same_text_spec in E. }
    unfold read_claim, first_of. simpl.
    destruct (read_claim_of t Pure) eqn:E1; [intros [= ->]; now apply (Hone Pure)|].
    destruct (read_claim_of t Approx) eqn:E2; [intros [= ->]; now apply (Hone Approx)|].
    destruct (read_claim_of t Gdp) eqn:E3; [intros [= ->]; now apply (Hone Gdp)|].
    destruct (read_claim_of t Zcdp) eqn:E4; [intros [= ->]; now apply (Hone Zcdp)|easy].
  - intros [H <-].
    assert (Hread : read_claim_of (write_claim k numbers) k = Some (k, numbers)).
    { unfold read_claim_of. unfold write_claim at 1.
      replace (name k ++ ":"%char :: join (map write numbers)) with ((name k ++ [":"%char]) ++ join (map write numbers))
        by now rewrite <- app_assoc.
      rewrite after_app. pose proof H as Hc. apply andb_true_iff in H as [H Hlength]. apply Nat.eqb_eq in Hlength.
      rewrite split_join.
      - replace (all_some _) with (Some numbers).
        + now rewrite Hc, (proj2 (same_text_spec _ _) eq_refl).
        + symmetry. apply all_some_spec. rewrite map_map. apply map_ext_in. intros n Hn. apply read_number_spec. split; trivial.
          rewrite forallb_forall in H. now apply H.
      - destruct numbers; [now destruct k|easy].
      - rewrite Forall_map. apply Forall_forall. intros n Hn. apply number_no_comma. rewrite forallb_forall in H. now apply H. }
    unfold read_claim, first_of. simpl. destruct k; rewrite Hread; try easy; now unfold read_claim_of, write_claim.
Qed.

(** ** Claims: text and numbers *)

Section Claims.
(** The double nearest to a number, written as its shortest decimal number; None beyond the largest double. *)
Context (round : decimal -> option decimal).

Record claim := { kind_of : kind; parameter : Q; delta : Q }.

(** Whole numbers beyond 2^53 do not occur in [claim_numbers] here: their equality with a double is not that of decimals. *)
Definition same_number (q : Q) (j : json) : bool :=
  match j with
  | Whole z => (Z.abs z <=? 2 ^ 53)%Z && Qeq_bool (inject_Z z) q
  | Real d => Qeq_bool (value d) q
  | _ => false
  end.

Fixpoint all_same (numbers : list Q) (l : list json) : bool :=
  match numbers, l with
  | [], [] => true
  | q :: numbers', j :: l' => same_number q j && all_same numbers' l'
  | _, _ => false
  end.

Definition less (p q : Q) : bool := negb (Qle_bool q p).

Definition decode_claim (t : string) (claim_numbers : list json) : option claim :=
  match read_claim (letters t) with
  | None => None
  | Some (k, numerals) =>
    match all_some (map (fun n => round (meaning n)) numerals) with
    | None => None
    | Some rounded =>
      let numbers := map value rounded ++ match k with Pure => [0] | _ => [] end in
      let found := {| kind_of := k; parameter := nth 0 numbers 0; delta := nth 1 numbers 0 |} in
      if all_same numbers claim_numbers && less 0 (parameter found) && Qle_bool 0 (delta found) && less (delta found) 1
      then Some found else None
    end
  end.

Lemma less_spec : forall p q, less p q = true <-> p < q.
Proof.
  intros p q. unfold less. rewrite negb_true_iff, <- not_true_iff_false, Qle_bool_iff. split; [apply Qnot_le_lt|apply Qlt_not_le].
Qed.

Lemma same_number_spec : forall q j, same_number q j = true -> exists p, number j = Some p /\ p == q.
Proof.
  intros q [ | | z | d | | | ]; simpl; try easy; intros H.
  - apply andb_true_iff in H as [_ H]. apply Qeq_bool_iff in H. now eexists.
  - apply Qeq_bool_iff in H. now eexists.
Qed.

(** What an accepted claim means: its text is written by the grammar, its numbers are the rounded numbers of the text, the
    numbers in [claim_numbers] are the same, and they are in their ranges. *)
Theorem decode_claim_spec : forall t claim_numbers c, decode_claim t claim_numbers = Some c ->
  exists numerals rounded stated,
    is_claim (kind_of c) numerals = true /\ letters t = write_claim (kind_of c) numerals
    /\ map Some rounded = map (fun n => round (meaning n)) numerals
    /\ map number claim_numbers = map Some stated
    /\ Forall2 Qeq stated (parameter c :: match kind_of c with Pure | Approx => [delta c] | _ => [] end)
    /\ (parameter c = nth 0 (map value rounded) 0) /\ (delta c = nth 1 (map value rounded) 0)
    /\ 0 < parameter c /\ 0 <= delta c < 1.
Proof.
  intros t claim_numbers c. unfold decode_claim. destruct (read_claim _) as [[k numerals]|] eqn:Hread; [|easy].
  destruct (all_some _) as [rounded|] eqn:Hround; [|easy]. destruct (_ && _) eqn:E; [|easy]. intros [= <-]. simpl in *.
  apply read_claim_spec in Hread as [Hclaim Hwrite]. apply all_some_spec in Hround.
  rewrite !andb_true_iff, !less_spec, Qle_bool_iff in E. destruct E as [[[Hsame Hparameter] Hdelta] Hone].
  assert (Hstated : exists stated, map number claim_numbers = map Some stated
      /\ Forall2 Qeq stated (map value rounded ++ match k with Pure => [0] | _ => [] end)).
  { clear - Hsame. revert claim_numbers Hsame. induction (map value rounded ++ _) as [|q l IH]; intros [|j js] H; simpl in H; try easy.
    - now exists [].
    - apply andb_true_iff in H as [H1 H2]. apply same_number_spec in H1 as (p & Hp & Heq). destruct (IH _ H2) as (stated & Hs & Hf).
      exists (p :: stated). simpl. rewrite Hp, Hs. split; [easy|now constructor]. }
  destruct Hstated as (stated & Hs & Hf). exists numerals, rounded, stated.
  assert (Hlength : List.length rounded = arity k).
  { apply andb_true_iff in Hclaim as [_ Hl]. apply Nat.eqb_eq in Hl. apply (f_equal (@List.length _)) in Hround.
    rewrite !map_length in Hround. congruence. }
  destruct k; simpl in Hlength; destruct rounded as [|r1 [|r2 [|r3 rounded]]]; try easy; simpl in *; repeat split; trivial.
Qed.

Lemma pure_has_no_delta : forall t claim_numbers c, decode_claim t claim_numbers = Some c -> kind_of c = Pure -> delta c = 0.
Proof.
  intros t claim_numbers c. unfold decode_claim. destruct (read_claim _) as [[k numerals]|] eqn:Hread; [|easy].
  destruct (all_some _) as [rounded|] eqn:Hround; [|easy]. destruct (_ && _); [|easy]. intros [= <-] Hk. simpl in Hk. subst k.
  apply read_claim_spec in Hread as [Hclaim _]. apply andb_true_iff in Hclaim as [_ Hl]. apply Nat.eqb_eq in Hl.
  apply all_some_spec, (f_equal (@List.length _)) in Hround. rewrite !map_length in Hround. simpl in *.
  now destruct rounded as [|r [|r' rounded]]; simpl in *; try lia.
Qed.

(** A claim whose numbers are those of another claim is refused, for example pure:5 with the numbers of pure:1. *)
Theorem other_numbers_are_refused : forall k first others d q claim_numbers t,
  letters t = write_claim k (first :: others) -> is_claim k (first :: others) = true -> round (meaning first) = Some d ->
  (exists j rest, claim_numbers = j :: rest /\ number j = Some q) -> ~ q == value d ->
  decode_claim t claim_numbers = None.
Proof.
  intros k first others d q claim_numbers t Ht Hclaim Hround (j & rest & -> & Hj) Hother.
  destruct (decode_claim t (j :: rest)) as [c|] eqn:E; [|easy]. exfalso.
  unfold decode_claim in E. rewrite (proj2 (read_claim_spec _ _ _) (conj Hclaim (eq_sym Ht))) in E.
  cbn [map all_some] in E. rewrite Hround in E. destruct (all_some _) as [rounded|]; [|easy].
  destruct (all_same _ _) eqn:Hsame; [|easy]. simpl in Hsame. apply andb_true_iff in Hsame as [Hsame _].
  apply same_number_spec in Hsame as (p & Hp & Heq). rewrite Hj in Hp. injection Hp as ->. now apply Hother.
Qed.
End Claims.
Example forged_numbers : decode_claim Some "pure:5" [Whole 1; Whole 0] = None.
Proof. reflexivity. Qed.
Example honest_numbers : decode_claim Some "pure:5" [Whole 5; Whole 0] = Some {| kind_of := Pure; parameter := 5; delta := 0 |}.
Proof. reflexivity. Qed.
