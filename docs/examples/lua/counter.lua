-- Another path and another header for each request. Each thread counts for itself.
--
--     whyslow load -s counter.lua http://127.0.0.1:8080

local counter = 0

function request()
  local number = tostring(counter)
  counter = counter + 1
  wrk.headers["X-Counter"] = number
  return wrk.format(nil, "/" .. number)
end
