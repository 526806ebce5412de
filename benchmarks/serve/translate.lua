-- Requests to translate the texts of a file, in turn; prints one line of results.
--   wrk -s translate.lua URL -- FILE
local bodies, threads = {}, {}

function setup(thread)
  table.insert(threads, thread)
end

function init(arguments)
  counts, number = {}, 0
  for line in io.lines(arguments[1]) do
    table.insert(bodies, line)
  end
end

function request()
  number = number % #bodies + 1
  return wrk.format("POST", nil, {["Content-Type"] = "application/json"}, bodies[number])
end

function response(status)
  counts[status] = (counts[status] or 0) + 1
  local parts = {}
  for code, count in pairs(counts) do
    table.insert(parts, string.format('"%d": %d', code, count))
  end
  statuses = "{" .. table.concat(parts, ", ") .. "}"
end

function done(summary, latency)
  local errors = summary.errors
  print(string.format(
    'RESULT {"requests": %d, "seconds": %.3f, "p50": %.2f, "p95": %.2f, "p99": %.2f, "errors": %d, "statuses": %s}',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(95) / 1e3,
    latency:percentile(99) / 1e3, errors.connect + errors.read + errors.write + errors.timeout,
    threads[1]:get("statuses") or "{}"))
end
