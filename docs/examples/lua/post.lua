-- A body and a method for every request. It defines no function, so it costs nothing per request.
--
--     whyslow load -s post.lua http://127.0.0.1:8080/form

wrk.method = "POST"
wrk.body = "name=whyslow&answer=42"
wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"
