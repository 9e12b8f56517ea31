# Several keys in one question, each answered by itself.
curl -s http://127.0.0.1:7400/v1/check-many -H 'content-type: application/json' -d '{"checks": [
    {"policy": "cost", "key": "alice", "cost": 7000},
    {"policy": "cost", "key": "bob", "cost": 7000},
    {"policy": "cost", "key": "alice", "cost": 7000}
]}'
