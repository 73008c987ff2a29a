-- Goes through the paths of a file, one a line, again and again. Threads begin at different places.
--
--     whyslow load -t2 -s paths.lua http://127.0.0.1:8080 -- paths.txt

local paths = {}
local started = 0

function setup(thread)
  thread:set("offset", started)
  started = started + 1
end

function init(args)
  local name = args[1] or "paths.txt"
  local file = assert(io.open(name))
  for line in file:lines() do
    if line ~= "" then
      paths[#paths + 1] = line
    end
  end
  file:close()
  assert(#paths > 0, name .. " has no paths")
end

function request()
  offset = offset % #paths + 1
  return wrk.format(nil, paths[offset])
end
