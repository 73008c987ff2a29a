(* cohttp on Async as its documentation shows it: the server of the published
   comparison. Usage: server PORT. Not compiled where this was written: see the
   recipe in target.toml. *)

open Core
open Async
open Cohttp_async

(* 2 KiB *)
let text =
  let line = "A slow answer may have been made in no time and waited in line.\n" in
  String.concat (List.init 32 ~f:(fun _ -> line))

(* cohttp sends no Date; the text is kept for the second that it holds. *)
let date =
  let made_at = ref 0 and kept = ref "" in
  fun () ->
    let now = Int.of_float (Core_unix.time ()) in
    if now <> !made_at then (
      made_at := now;
      kept := Core_unix.strftime (Core_unix.gmtime (Float.of_int now)) "%a, %d %b %Y %H:%M:%S GMT");
    !kept

let answer status content_type body =
  let headers =
    Cohttp.Header.of_list
      [ ("Server", "whyslow"); ("Date", date ()); ("Content-Type", content_type) ]
  in
  Server.respond_string ~headers ~status body

let handler ~body:_ _address request =
  match Request.resource request with
  | "/plaintext" -> answer `OK "text/plain" "Hello, World!"
  | "/welcome" -> answer `OK "application/json" "Welcome!"
  | "/" -> answer `OK "text/plain" text
  | _ -> answer `Not_found "text/plain" "Not Found"

let () =
  let port = Int.of_string (Sys.get_argv ()).(1) in
  don't_wait_for
    (let%map.Deferred (_ : (_, _) Server.t) =
       Server.create ~on_handler_error:`Ignore (Tcp.Where_to_listen.of_port port) handler
     in
     ());
  never_returns (Scheduler.go ())
