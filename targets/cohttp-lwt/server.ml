(* cohttp on Lwt as its documentation shows it: one thread, a promise per
   connection. Usage: server HOST PORT *)

open Cohttp_lwt_unix

(* 2 KiB *)
let text =
  let line = "A slow answer may have been made in no time and waited in line.\n" in
  String.concat "" (List.init 32 (fun _ -> line))

let format_date seconds =
  let t = Unix.gmtime seconds in
  let days = [| "Sun"; "Mon"; "Tue"; "Wed"; "Thu"; "Fri"; "Sat" |] in
  let months =
    [| "Jan"; "Feb"; "Mar"; "Apr"; "May"; "Jun"; "Jul"; "Aug"; "Sep"; "Oct"; "Nov"; "Dec" |]
  in
  Printf.sprintf "%s, %02d %s %d %02d:%02d:%02d GMT" days.(t.tm_wday) t.tm_mday
    months.(t.tm_mon) (1900 + t.tm_year) t.tm_hour t.tm_min t.tm_sec

(* cohttp sends no Date; the text is kept for the second that it holds. *)
let date =
  let made_at = ref 0. and kept = ref "" in
  fun () ->
    let now = Float.of_int (Float.to_int (Unix.time ())) in
    if now <> !made_at then (
      made_at := now;
      kept := format_date now);
    !kept

let answer status content_type body request =
  let headers =
    Cohttp.Header.of_list
      [
        ("Server", "whyslow");
        ("Date", date ());
        ("Content-Type", content_type);
        ("Content-Length", string_of_int (String.length body));
      ]
  in
  let body = if Request.meth request = `HEAD then "" else body in
  Server.respond_string ~headers ~status ~body ()

let callback _connection request _body =
  (match Request.resource request with
  | "/plaintext" -> answer `OK "text/plain" "Hello, World!"
  | "/welcome" -> answer `OK "application/json" "Welcome!"
  | "/" -> answer `OK "text/plain" text
  | _ -> answer `Not_found "text/plain" "Not Found")
    request

let () =
  let open Lwt.Infix in
  let serve =
    Conduit_lwt_unix.init ~src:Sys.argv.(1) () >>= fun conduit ->
    let mode = `TCP (`Port (int_of_string Sys.argv.(2))) in
    let ctx = Net.init ~ctx:conduit () in
    Server.create ~ctx ~mode (Server.make ~callback ())
  in
  Lwt_main.run serve
