# Charge what was used already, though it fits no more.
for tokens in 9000 4000; do
    curl -s http://127.0.0.1:7400/v1/debit -H 'content-type: application/json' \
        -d "{\"policy\": \"cost\", \"key\": \"alice\", \"cost\": $tokens}"
    echo
done
