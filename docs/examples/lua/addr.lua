-- Spreads the threads over all addresses of a host that accept a connection.
--
--     whyslow load -t4 -s addr.lua http://localhost:8080/

local addrs
local used = 0

function setup(thread)
  if not addrs then
    addrs = {}
    for _, addr in ipairs(wrk.lookup(wrk.host, wrk.port or wrk.scheme)) do
      if wrk.connect(addr) then
        addrs[#addrs + 1] = addr
      end
    end
  end
  thread.addr = addrs[used % #addrs + 1]
  used = used + 1
end

function init(args)
  print(("a thread drives %s"):format(wrk.thread.addr))
end
