-- Several requests at once on one connection: request() returns them one after the other. Each answer has a time of
-- its own. For requests that are all alike, `--pipeline 3` does the same for less.
--
--     whyslow load -s pipeline.lua http://127.0.0.1:8080

local batch

function init(args)
  batch = table.concat({
    wrk.format(nil, "/first"),
    wrk.format(nil, "/second"),
    wrk.format(nil, "/third"),
  })
end

function request()
  return batch
end
