-- The script's side of wrk's Lua API. It runs once in each state, before the user's script, is given what only the host
-- can do, and returns what the host calls.
local host = ...
local type, pairs, tostring = type, pairs, tostring
local len, gmatch, concat = string.len, string.gmatch, table.concat
local lower, sub, format = string.lower, string.sub, string.format

-- What a script prints keeps its place among what the host prints.
io.stdout:setvbuf("line")
-- Compiled code cannot be interrupted, and a script that loops for ever is to be stopped: the compiler is off, and stays
-- off whatever a script that was written for wrk says.
jit.off()
function jit.on() end

wrk = {
  scheme = "http",
  host = "localhost",
  port = nil,
  method = "GET",
  path = "/",
  headers = {},
  body = nil,
  thread = nil,
  lookup = host.lookup,
  connect = host.connect,
}
package.loaded.wrk = wrk

-- Keeps the addresses that accept a connection; a single one is not tried, the run will tell.
function wrk.resolve(name, service)
  local found = wrk.lookup(name, service)
  local kept = {}
  for _, addr in ipairs(found) do
    if #found == 1 or wrk.connect(addr) then
      kept[#kept + 1] = addr
    end
  end
  wrk.addrs = kept
end

function wrk.setup(thread)
  thread.addr = wrk.addrs and wrk.addrs[1]
  if type(setup) == "function" then
    setup(thread)
  end
end

local initialised = false

function wrk.init(args)
  if not wrk.headers["Host"] then
    local name = wrk.host
    if name:find(":", 1, true) then
      name = "[" .. name .. "]"
    end
    wrk.headers["Host"] = wrk.port and (name .. ":" .. wrk.port) or name
  end
  -- Scripts written for wrk2 call wrk.init from their own.
  if type(init) == "function" and not initialised then
    initialised = true
    init(args)
  end
  local text = wrk.format()
  function wrk.request()
    return text
  end
end

-- Whether the headers say that the body is sent in chunks.
local function is_chunked(headers)
  for name, value in pairs(headers) do
    if lower(tostring(name)) == "transfer-encoding" then
      return lower(tostring(value)) == "chunked"
    end
  end
  return false
end

-- A body in one chunk; one that ends as chunks do is in chunks already.
local function in_chunks(body)
  if body == "" or sub(body, -5) == "0\r\n\r\n" then
    return body == "" and "0\r\n\r\n" or body
  end
  return format("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
end

-- The text of a request. What is not given is taken from wrk; the headers given get the fields that are missing, and never two
-- that say how long the body is.
function wrk.format(method, path, headers, body)
  headers = headers or wrk.headers
  body = body or wrk.body
  headers["Host"] = headers["Host"] or wrk.headers["Host"]
  if is_chunked(headers) then
    headers["Content-Length"] = nil
    body = in_chunks(body or "")
  else
    headers["Content-Length"] = body and len(body)
  end
  local lines, count = { (method or wrk.method) .. " " .. (path or wrk.path) .. " HTTP/1.1" }, 1
  for name, value in pairs(headers) do
    count = count + 1
    lines[count] = tostring(name) .. ": " .. tostring(value)
  end
  lines[count + 1] = ""
  lines[count + 2] = body or ""
  return concat(lines, "\r\n")
end

-- A script may define and redefine these at any time: they are looked up at each call.
return {
  request = function()
    if type(request) == "function" then
      return request()
    end
    return wrk.request()
  end,
  delay = function()
    return delay()
  end,
  -- The fields come in one string, a name and a value on a line each: one crossing of the boundary for all of them.
  response = function(status, fields, body)
    local headers = {}
    for name, value in gmatch(fields, "([^\n]*)\n([^\n]*)\n") do
      headers[name] = value
    end
    response(status, headers, body)
  end,
  done = function(summary, latency, requests)
    done(summary, latency, requests)
  end,
  has = function(name)
    return type(_G[name]) == "function"
  end,
}
