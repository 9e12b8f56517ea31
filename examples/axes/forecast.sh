# How many such requests fit, and when the next does: nothing is taken.
curl -s http://127.0.0.1:7400/v1/forecast -H 'content-type: application/json' \
    -d '{"policy": "cost", "key": "alice", "cost": 2000}'
