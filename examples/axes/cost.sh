# So much is reserved; what was not used comes back, and more than that is debt.
ask() {
    curl -s "http://127.0.0.1:7400/v1/$1" -H 'content-type: application/json' -d "$2"
}
reserve() {
    ask acquire '{"policy": "cost", "key": "alice", "cost": 4000}' | sed 's/.*"lease":{"id":"\([0-9a-f]*\)".*/\1/'
}
ask settle "{\"policy\": \"cost\", \"key\": \"alice\", \"lease\": \"$(reserve)\", \"used\": {\"tokens\": 1000}}"
echo
ask settle "{\"policy\": \"cost\", \"key\": \"alice\", \"lease\": \"$(reserve)\", \"used\": {\"tokens\": 12000}}"
echo
ask check '{"policy": "cost", "key": "alice", "cost": 1}'
