# May one more be held at once?
ask() {
    curl -s "http://127.0.0.1:7400/v1/$1" -H 'content-type: application/json' -d "$2"
}
first=$(ask acquire '{"policy": "concurrency", "key": "alice"}')
echo "$first"
ask acquire '{"policy": "concurrency", "key": "alice"}'
echo
lease=$(echo "$first" | sed 's/.*"lease":{"id":"\([0-9a-f]*\)".*/\1/')
ask release "{\"policy\": \"concurrency\", \"key\": \"alice\", \"lease\": \"$lease\"}"
echo
ask acquire '{"policy": "concurrency", "key": "alice"}'
