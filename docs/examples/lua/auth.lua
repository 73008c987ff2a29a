-- Logs in once, then asks with the token that the answer brought. Each thread has a token of its own.
--
--     whyslow load -s auth.lua http://127.0.0.1:8080

local token

function request()
  if token then
    return wrk.format("GET", "/resource", { ["Authorization"] = "Bearer " .. token })
  end
  return wrk.format("GET", "/authenticate")
end

function response(status, headers, body)
  if not token and status == 200 then
    token = headers["X-Token"]
  end
end
