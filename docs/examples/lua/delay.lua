-- People think between two requests: each connection rests 10 to 50 ms before it asks.
--
--     whyslow load -c100 -s delay.lua http://127.0.0.1:8080/

function delay()
  return math.random(10, 50)
end
