(** * Independent rounds of a coin-flip audit, and the joint law of their counts

    A law is a finite list of values with weights. Outputs of programs are finite, so a law on any type of outputs
    covers them. For a mechanism on paper with another output space, let [Output] be [guess]: its law is then the
    image of the mechanism's law under the guess rule. Each event of guesses is an event of outputs, so a claim on
    events of outputs holds for the image too. *)

From Coq Require Import Reals Lra Lia List.
From Kernel Require Import Binomial.
Import ListNotations.
Open Scope R_scope.

Definition law (A : Type) := list (A * R).

Fixpoint mean {A} (l : law A) (f : A -> R) : R :=
  match l with
  | [] => 0
  | (a, weight) :: rest => weight * f a + mean rest f
  end.

Definition proper {A} (l : law A) : Prop := Forall (fun aw => 0 <= snd aw) l /\ mean l (fun _ => 1) = 1.

Definition chance {A} (l : law A) (event : A -> bool) : R := mean l (fun a => indicator (event a)).

Lemma mean_linear : forall A (l : law A) f g a b, mean l (fun x => a * f x + b * g x) = a * mean l f + b * mean l g.
Proof. induction l as [|[x w] l IH]; intros; simpl; [ring|rewrite IH; ring]. Qed.

Lemma mean_le : forall A (l : law A) f g, proper l -> (forall x, f x <= g x) -> mean l f <= mean l g.
Proof.
  intros A l f g [Hw _] H. induction Hw as [|[x w] l Hx Hw IH]; simpl in *; [lra|].
  pose proof (Rmult_le_compat_l w _ _ Hx (H x)). lra.
Qed.

Lemma mean_eq : forall A (l : law A) f g, (forall x, f x = g x) -> mean l f = mean l g.
Proof. intros A l f g H. induction l as [|[x w] l IH]; simpl; [easy|now rewrite H, IH]. Qed.

Lemma chance_bounds : forall A (l : law A) event, proper l -> 0 <= chance l event <= 1.
Proof.
  intros A l event H. split.
  - replace 0 with (mean l (fun _ => 0 * 1 + 0 * 1)) by (rewrite mean_linear; ring).
    apply mean_le; trivial. intros x. pose proof (indicator_bounds (event x)). lra.
  - rewrite <- (proj2 H). apply mean_le; trivial. intros x. apply indicator_bounds.
Qed.

(** ** One round: a fair coin, one run of the mechanism, one guess *)

Inductive guess := Guess1 | Guess0 | Abstain.

Section Rounds.
Context {Output : Type}.

(** The laws of the mechanism's output on the two datasets of a pair. *)
Record pair := { on1 : law Output; on0 : law Output }.
Definition proper_pair (m : pair) : Prop := proper (on1 m) /\ proper (on0 m).

(** A round is the coin (true: the mechanism runs on D1) and the output. *)
Definition round : Type := bool * Output.

Definition mean_round (m : pair) (f : round -> R) : R :=
  (mean (on1 m) (fun y => f (true, y)) + mean (on0 m) (fun y => f (false, y))) / 2.

Definition right (rule : Output -> guess) (r : round) : bool :=
  match rule (snd r), fst r with Guess1, true | Guess0, false => true | _, _ => false end.

Definition wrong (rule : Output -> guess) (r : round) : bool :=
  match rule (snd r), fst r with Guess1, false | Guess0, true => true | _, _ => false end.

Definition chance_right (m : pair) (rule : Output -> guess) : R := mean_round m (fun r => indicator (right rule r)).
Definition chance_wrong (m : pair) (rule : Output -> guess) : R := mean_round m (fun r => indicator (wrong rule r)).

(** ** Independent rounds: the expectation over n rounds is an iterated expectation *)

Fixpoint mean_rounds (m : pair) (n : nat) (f : list round -> R) : R :=
  match n with
  | O => f []
  | S n' => mean_round m (fun r => mean_rounds m n' (fun rest => f (r :: rest)))
  end.

Fixpoint count (event : round -> bool) (rounds : list round) : nat :=
  match rounds with
  | [] => O
  | r :: rest => if event r then S (count event rest) else count event rest
  end.

Lemma mean_round_linear : forall m f g a b,
  mean_round m (fun r => a * f r + b * g r) = a * mean_round m f + b * mean_round m g.
Proof. intros. unfold mean_round. rewrite !mean_linear. field. Qed.

Lemma mean_round_le : forall m f g, proper_pair m -> (forall r, f r <= g r) -> mean_round m f <= mean_round m g.
Proof.
  intros m f g [H1 H0] H. unfold mean_round.
  pose proof (mean_le _ _ (fun y => f (true, y)) (fun y => g (true, y)) H1 (fun y => H (true, y))).
  pose proof (mean_le _ _ (fun y => f (false, y)) (fun y => g (false, y)) H0 (fun y => H (false, y))). lra.
Qed.

Lemma mean_round_eq : forall m f g, (forall r, f r = g r) -> mean_round m f = mean_round m g.
Proof. intros m f g H. unfold mean_round. f_equal; f_equal; apply mean_eq; auto. Qed.

Lemma mean_round_constant : forall m a, proper_pair m -> mean_round m (fun _ => a) = a.
Proof.
  intros m a [[_ H1] [_ H0]].
  transitivity (mean_round m (fun _ => a * 1 + 0 * 1)); [apply mean_round_eq; intros; ring|].
  rewrite mean_round_linear. unfold mean_round. rewrite H1, H0. lra.
Qed.

Lemma mean_rounds_le : forall m n f g, proper_pair m -> (forall l, length l = n -> f l <= g l) ->
  mean_rounds m n f <= mean_rounds m n g.
Proof.
  intros m n f g Hm. revert f g. induction n as [|n IH]; intros f g H; simpl; [auto|].
  apply mean_round_le; trivial. intros r. apply IH. intros l Hl. apply H. simpl. now rewrite Hl.
Qed.

Lemma mean_rounds_eq : forall m n f g, (forall l, f l = g l) -> mean_rounds m n f = mean_rounds m n g.
Proof.
  intros m n. induction n as [|n IH]; intros f g H; simpl; [auto|]. apply mean_round_eq. auto.
Qed.

Lemma mean_rounds_linear : forall m n f g a b,
  mean_rounds m n (fun l => a * f l + b * g l) = a * mean_rounds m n f + b * mean_rounds m n g.
Proof.
  intros m n. induction n as [|n IH]; intros f g a b; simpl; [ring|].
  rewrite <- mean_round_linear. apply mean_round_eq. intros r. apply IH.
Qed.

(** ** Counts *)

(** Chance of a guess, and chance that a guess is right; 0 if the rule never guesses. *)
Definition frequency (m : pair) (rule : Output -> guess) : R := chance_right m rule + chance_wrong m rule.
Definition accuracy (m : pair) (rule : Output -> guess) : R := chance_right m rule / frequency m rule.

Lemma chance_right_nonnegative : forall m rule, proper_pair m -> 0 <= chance_right m rule.
Proof.
  intros m rule H. rewrite <- (mean_round_constant m 0 H). apply mean_round_le; trivial. intros; apply indicator_bounds.
Qed.

Lemma chance_wrong_nonnegative : forall m rule, proper_pair m -> 0 <= chance_wrong m rule.
Proof.
  intros m rule H. rewrite <- (mean_round_constant m 0 H). apply mean_round_le; trivial. intros; apply indicator_bounds.
Qed.

Lemma frequency_is_probability : forall m rule, proper_pair m -> probability (frequency m rule).
Proof.
  intros m rule H. split.
  - pose proof (chance_right_nonnegative m rule H). pose proof (chance_wrong_nonnegative m rule H). unfold frequency. lra.
  - unfold frequency, chance_right, chance_wrong.
    replace (_ + _) with (mean_round m (fun r => 1 * indicator (right rule r) + 1 * indicator (wrong rule r)))
      by (rewrite mean_round_linear; ring).
    apply Rle_trans with (mean_round m (fun _ => 1)); [|rewrite mean_round_constant; [lra|trivial]].
    apply mean_round_le; trivial. intros [[|] y]; unfold right, wrong; simpl; destruct (rule y); simpl; lra.
Qed.

Lemma accuracy_spec : forall m rule, proper_pair m ->
  chance_right m rule = frequency m rule * accuracy m rule
  /\ chance_wrong m rule = frequency m rule * (1 - accuracy m rule) /\ probability (accuracy m rule).
Proof.
  intros m rule H. unfold accuracy, probability.
  pose proof (chance_right_nonnegative m rule H). pose proof (chance_wrong_nonnegative m rule H).
  destruct (Req_dec (frequency m rule) 0) as [Hs|Hs].
  - assert (chance_right m rule = 0 /\ chance_wrong m rule = 0) as [-> ->] by (unfold frequency in Hs; lra).
    rewrite Hs. unfold Rdiv. rewrite !Rmult_0_l. lra.
  - assert (0 < frequency m rule) by (unfold frequency in *; lra).
    repeat split; [field; trivial| | |].
    + transitivity (frequency m rule - chance_right m rule); [unfold frequency; ring|field; trivial].
    + apply Rmult_le_pos; [trivial|left; now apply Rinv_0_lt_compat].
    + apply Rmult_le_reg_r with (frequency m rule); trivial. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by trivial.
      unfold frequency. lra.
Qed.

(** The number of guesses M is Bin(n, s). Given M, the number of right guesses is Bin(M, theta). *)
Theorem law_of_counts : forall m rule n f, proper_pair m ->
  mean_rounds m n (fun l => f (count (right rule) l) (count (right rule) l + count (wrong rule) l)%nat)
  = expectation n (frequency m rule) (fun guesses => expectation guesses (accuracy m rule) (fun c => f c guesses)).
Proof.
  intros m rule n f Hm. revert f. induction n as [|n IH]; intros f.
  - rewrite expectation_0, expectation_0. reflexivity.
  - set (R := count (right rule)). set (M := fun l => (R l + count (wrong rule) l)%nat).
    set (if_right := mean_rounds m n (fun l => f (S (R l)) (S (M l)))).
    set (if_wrong := mean_rounds m n (fun l => f (R l) (S (M l)))).
    set (if_abstain := mean_rounds m n (fun l => f (R l) (M l))).
    transitivity (mean_round m (fun r => (if_right - if_abstain) * indicator (right rule r)
      + 1 * ((if_wrong - if_abstain) * indicator (wrong rule r) + if_abstain * 1))).
    + apply mean_round_eq. intros [b y]. unfold if_right, if_wrong, if_abstain, M, R. simpl count.
      destruct b, (rule y) eqn:E; unfold right at 1 4, wrong at 2; unfold right, wrong; simpl; rewrite E; simpl;
      match goal with |- ?a = _ => ring_simplify; apply mean_rounds_eq; intros l; f_equal; lia end.
    + rewrite !mean_round_linear, (mean_round_constant m 1 Hm).
      fold (chance_right m rule) (chance_wrong m rule).
      destruct (accuracy_spec m rule Hm) as (-> & -> & _).
      rewrite expectation_S.
      set (s := frequency m rule). set (theta := accuracy m rule).
      rewrite (expectation_eq n s (fun k => expectation (S k) theta (fun c => f c (S k)))
        (fun k => theta * expectation k theta (fun c => f (S c) (S k)) + (1 - theta) * expectation k theta (fun c => f c (S k))))
        by (intros; apply expectation_S).
      rewrite expectation_linear.
      pose proof (IH (fun c g => f (S c) (S g))) as IHright. pose proof (IH (fun c g => f c (S g))) as IHwrong.
      cbv beta in IHright, IHwrong. unfold s, theta. rewrite <- IHright, <- IHwrong, <- IH.
      fold R. change (mean_rounds m n (fun l => f (S (R l)) (S (R l + count (wrong rule) l)))) with if_right.
      change (mean_rounds m n (fun l => f (R l) (S (R l + count (wrong rule) l)))) with if_wrong.
      change (mean_rounds m n (fun l => f (R l) (R l + count (wrong rule) l)%nat)) with if_abstain. ring.
Qed.
End Rounds.
