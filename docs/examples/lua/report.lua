-- A report of one's own: percentiles as CSV, errors only where there are any.
--
--     whyslow load -s report.lua http://127.0.0.1:8080/

function done(summary, latency, requests)
  print("percentile,milliseconds")
  for _, percentile in ipairs({ 50, 90, 99, 99.9 }) do
    print(string.format("%g,%.3f", percentile, latency:percentile(percentile) / 1000))
  end
  print(string.format("max,%.3f", latency.max / 1000))

  local seconds = summary.duration / 1e6
  print(string.format("%d requests, %.1f a second", summary.requests, summary.requests / seconds))
  for name, count in pairs(summary.errors) do
    if count > 0 then
      print(string.format("%s errors: %d", name, count))
    end
  end
end
