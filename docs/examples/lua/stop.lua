-- Ends each thread after so many answers, however long the window would be.
--
--     whyslow load -d1h -s stop.lua http://127.0.0.1:8080/ -- 1000

local left = 100

function init(args)
  left = tonumber(args[1]) or left
end

function response()
  left = left - 1
  if left == 0 then
    wrk.thread:stop()
  end
end
