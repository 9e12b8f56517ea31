-- What `wrk` sends, and how many of which answers it gets: each thread stops at
-- its share of the requests, so that the load is bounded by number, not by time.
local threads, most = {}, 2000

function setup(thread)
    table.insert(threads, thread)
end

function init(arguments)
    answers, admitted, refused, strange = 0, 0, 0, 0
    wrk.method = "POST"
    wrk.headers["content-type"] = "application/json"
    wrk.body = arguments[1]
end

function response(status)
    answers = answers + 1
    if status == 200 then
        admitted = admitted + 1
    elseif status == 429 then
        refused = refused + 1
    else
        strange = strange + 1
    end
    if answers >= most then
        wrk.thread:stop()
    end
end

function done(summary)
    local total = { admitted = 0, refused = 0, strange = 0 }
    for _, thread in ipairs(threads) do
        for name in pairs(total) do
            total[name] = total[name] + thread:get(name)
        end
    end
    local errors = summary.errors
    local broken = errors.connect + errors.read + errors.write + errors.timeout
    local words = "admitted=%d refused=%d strange=%d broken=%d\n"
    io.write(words:format(total.admitted, total.refused, total.strange, broken))
end
