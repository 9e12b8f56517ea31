# Calls, tokens and slots in one step: all are taken or none, and a refusal names which binds.
for tokens in 4000 8000 4000 1000; do
    curl -s http://127.0.0.1:7400/v1/acquire -H 'content-type: application/json' \
        -d "{\"policy\": \"all\", \"key\": \"alice\", \"cost\": $tokens}"
    echo
done
