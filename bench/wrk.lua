-- Script of wrk: sends the POSTs that bench/wrk.ts describes in the environment, and prints a GeneratedLoad in JSON.

wrk.method = "POST"
wrk.body = os.getenv("BENCH_BODY")
for name, value in os.getenv("BENCH_HEADERS"):gmatch("([^\n:]+): ([^\n]*)") do
  wrk.headers[name] = value
end

-- wrk formats the request only once where there is no function.
if os.getenv("BENCH_IS_UNIQUE") == "true" then
  local length = #wrk.body
  local count = 0
  function request()
    count = count + 1
    local number = string.format("%d-%d", id, count)
    return wrk.format(nil, nil, nil, number .. (" "):rep(length - #number))
  end
end

local servers = {}
local threads = 0

function setup(thread)
  if threads == 0 then
    for host, port in os.getenv("BENCH_SERVERS"):gmatch("(%S+):(%d+)") do
      table.insert(servers, wrk.lookup(host, port)[1])
    end
  end
  thread.addr = servers[threads % #servers + 1]
  thread:set("id", threads)
  threads = threads + 1
end

function done(summary, latency)
  local failed = summary.errors
  local seconds = summary.duration / 1e6
  -- wrk counts every status above 399 as an error.
  local refused = failed.status
  if tonumber(os.getenv("BENCH_STATUS")) > 399 then refused = summary.requests - failed.status end
  print(string.format(
    '\n{"requests":%d,"seconds":%f,"cpuShare":%f,"p50":%f,"p99":%f,"errors":%d}',
    summary.requests, seconds, os.clock() / seconds / threads,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    refused + failed.connect + failed.read + failed.write + failed.timeout))
end
