-- Values of its own for each thread, and a look into the threads at the end.
--
--     whyslow load -t4 -c8 -s setup.lua http://127.0.0.1:8080/

local threads = {}

function setup(thread)
  threads[#threads + 1] = thread
  thread:set("id", #threads)
end

function init(args)
  requests = 0
  responses = 0
end

function request()
  requests = requests + 1
  return wrk.format(nil, "/thread/" .. id)
end

function response()
  responses = responses + 1
end

function done()
  for _, thread in ipairs(threads) do
    local line = "thread %d asked %d times and was answered %d times"
    print(line:format(thread:get("id"), thread:get("requests"), thread:get("responses")))
  end
end
