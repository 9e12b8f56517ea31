# May one more call start now, and when is the next?
for call in 1 2 3 4; do
    curl -s http://127.0.0.1:7400/v1/check -H 'content-type: application/json' \
        -d '{"policy": "rate", "key": "alice"}'
    echo
done
