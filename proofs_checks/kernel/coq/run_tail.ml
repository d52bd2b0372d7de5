(* Read lines "n k a c one stop", and print tail_bound of each. The verified bound holds for each number of steps. The
   number of steps is cyclic, hence infinite: the loop ends by its own conditions, after finitely many steps. *)
let rec steps = Verified_tail.S steps

let () =
  try
    while true do
      match List.map Z.of_string (String.split_on_char ' ' (read_line ())) with
      | [ n; k; a; c; one; stop ] -> print_endline (Z.to_string (Verified_tail.tail_bound steps n k a c one stop))
      | _ -> failwith "a line must have six integers"
    done
  with End_of_file -> ()
