(* Run the verified decoders on lines of words, and print one line for each. The first word is the name of a decoder, and the
   others are a JSON value (see [value]). Doubles are those of OCaml: [round] finds the shortest decimal number of one. *)
module Integers = Z
open Verified_decoders
module Z = Integers (* of zarith *)

let rec steps = S steps (* the number of steps of a walk is cyclic, hence infinite: a walk ends by its own conditions *)
let letters s = List.init (String.length s) (String.get s)
let text l = String.init (List.length l) (List.nth l)
let width = 384

let decimal negative digits exponent =
  let rec strip n e = if Z.sign n <> 0 && Z.divisible n (Z.of_int 10) then strip (Z.div n (Z.of_int 10)) (Z.succ e) else (n, e) in
  let digits, exponent = if Z.sign digits = 0 then (Z.zero, Z.zero) else strip digits exponent in
  { negative; digits; exponent }

let round d =
  let x = float_of_string (Printf.sprintf "%se%s" (Z.to_string d.digits) (Z.to_string d.exponent)) in
  let rec shortest places =
    let s = Printf.sprintf "%.*e" places x in
    if places = 16 || float_of_string s = x then s else shortest (places + 1) in
  if x = infinity then None
  else
    match String.split_on_char 'e' (shortest 0) with
    | [ mantissa; e ] ->
      let digits = String.concat "" (String.split_on_char '.' mantissa) in
      Some (decimal d.negative (Z.of_string digits) (Z.of_int (int_of_string e - String.length digits + 1)))
    | _ -> failwith "no number"

(* n, t, f: null, true, false; i N: a whole number; r SIGN DIGITS EXPONENT; s TEXT; l N VALUES; o N NAMES AND VALUES. *)
let rec value words =
  match words with
  | "n" :: rest -> (Null, rest)
  | "t" :: rest -> (Bool true, rest)
  | "f" :: rest -> (Bool false, rest)
  | "i" :: n :: rest -> (Whole (Z.of_string n), rest)
  | "r" :: sign :: n :: e :: rest -> (Real (decimal (sign = "1") (Z.of_string n) (Z.of_string e)), rest)
  | "s" :: s :: rest -> (Text (word s), rest)
  | "l" :: n :: rest ->
    let found, rest = several value (int_of_string n) rest in
    (Items found, rest)
  | "o" :: n :: rest ->
    let field words = match words with
      | name :: rest -> let v, rest = value rest in ((word name, v), rest)
      | [] -> failwith "a name is missing" in
    let found, rest = several field (int_of_string n) rest in
    (Object found, rest)
  | _ -> failwith "no value"

and several : 'a. (string list -> 'a * string list) -> int -> string list -> 'a list * string list =
  fun read n words ->
    let found = ref [] and rest = ref words in
    for _ = 1 to n do
      let v, left = read !rest in
      found := v :: !found;
      rest := left
    done;
    (List.rev !found, !rest)

and word s = letters (String.init ((String.length s - 1) / 2) (fun i -> Char.chr (int_of_string ("0x" ^ String.sub s (2 * i + 1) 2))))

let fraction q = Z.to_string q.qnum ^ "/" ^ Z.to_string q.qden
let cell c = match c with
  | Integer z -> "i" ^ Z.to_string z
  | Double d -> Printf.sprintf "%s%se%s" (if d.negative then "-" else "") (Z.to_string d.digits) (Z.to_string d.exponent)
  | Word s -> text s
let row l = String.concat "," (List.map cell l)
let record r = match r with Single c -> cell c | Row l -> "[" ^ row l ^ "]" | Example (x, y) -> "([" ^ row x ^ "],[" ^ row y ^ "])"
let kind k = match k with Pure -> "pure" | Approx -> "approx" | Gdp -> "gdp" | Zcdp -> "zcdp"
let claim c = String.concat " " [ kind c.kind_of; fraction c.parameter; fraction c.delta ]
let pair p = (match p.relation_of with ReplaceOne -> "replace-one" | AddRemove -> "add-remove") ^ " " ^ Z.to_string p.most

let dataset d =
  String.concat " " (string_of_bool d.in_order :: List.map (fun (r, n) -> record r ^ "*" ^ Z.to_string n) d.table)

let statement s = String.concat " " [ claim s.claim_of; pair s.pair_of; fraction s.proved; fraction s.confidence; fraction s.error_of ]

let one = Z.shift_left Z.one width

(* The upper bounds of e^x are those of checker.py, and so is the limit of the frequency: they are searched, not verified. *)
let check_with words =
  match words with
  | s :: n :: rest ->
    let bound words = match words with x :: y :: rest -> ((Z.of_string x, Z.of_string y), rest) | _ -> failwith "a bound is missing" in
    let bounds, rest = several bound (int_of_string n) rest in
    let exp_above x = try List.assoc (ceiling one x) bounds with Not_found -> Z.mul one one in
    let limit = Z.of_string s in
    (Option.map statement (check round steps one (Z.of_int width) exp_above (fun _ _ _ -> limit) (fst (value rest))))
  | _ -> failwith "a limit is missing"

let answer line =
  match String.split_on_char ' ' line with
  | "claim" :: s :: rest -> (
    match value rest with Items l, _ -> Option.map claim (decode_claim round (word s) l) | _ -> failwith "no list")
  | "array" :: rest ->
    let shown a = String.concat " " (string_of_int (List.length (rows a)) :: List.map row (rows a)) in
    Option.map shown (decode_array round (fst (value rest)))
  | "dataset" :: rest -> Option.map dataset (decode_dataset round (fst (value rest)))
  | "pair" :: rest -> Option.map pair (decode_pair round (fst (value rest)))
  | "check" :: rest -> check_with rest
  | _ -> failwith "no decoder"

let () =
  try
    while true do
      print_endline (Option.value (answer (read_line ())) ~default:"none")
    done
  with End_of_file -> ()
