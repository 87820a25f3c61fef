-- Script of wrk: one request again and again, or reads of many jobs in turn; reports as a line of JSON.
-- Arguments: METHOD PATH [BODY], or `ids` FILE with a path in each line.

local paths, turn = {}, 0
local threads = 0

-- Each thread starts at another path.
function setup(thread)
  thread:set("offset", threads * 37)
  threads = threads + 1
end

function init(args)
  if args[1] == "ids" then
    for line in io.lines(args[2]) do
      paths[#paths + 1] = wrk.format("GET", line)
    end
    turn = offset
  else
    wrk.method = args[1]
    wrk.body = args[3]
    wrk.headers["content-type"] = args[3] and "application/json" or nil
    paths[1] = wrk.format(nil, args[2])
  end
end

function request()
  turn = turn + 1
  return paths[turn % #paths + 1]
end

function done(summary, latency)
  local errors = summary.errors
  local report = '{"requests": %d, "seconds": %f, "failed": %d, "p50Ms": %f, "p99Ms": %f}\n'
  io.write(report:format(
    summary.requests, summary.duration / 1e6,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3
  ))
end
