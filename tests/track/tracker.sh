# Sourced behind shell_test.sh: a tracker_server.py on $port, and what is asked of it.
# shellcheck shell=bash disable=SC2154
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy FTENGINE_NOTIFY_URL MLFLOW_TRACKING_URI MLFLOW_EXPERIMENT_NAME \
    MLFLOW_TRACKING_USERNAME MLFLOW_TRACKING_PASSWORD MLFLOW_TRACKING_TOKEN MLFLOW_RUN_ID
python3 -S "$SOURCE_DIR/tests/track/tracker_server.py" port >server.log 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$scratch"' EXIT
for _ in $(seq 4800); do [ -s port ] && break; sleep 0.025; done
port=$(cat port) || fail "the server did not start: $(cat server.log)"
# ask METHOD PATH BODY
ask() {
    exec 3<>"/dev/tcp/127.0.0.1/$port" || fail "the server is gone"
    printf '%s /control/%s HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s' "$1" "$2" "${#3}" "$3" >&3
    sed '1,/^\r$/d' <&3
    exec 3>&-
}
faults() { ask PUT faults "$1" >/dev/null; }
requests() { ask GET log "" >requests.json; }
store() { ask GET store "" >store.json; }
# holds FILE EXPRESSION: of its JSON, d
holds() { [ "$(json "$1" "$2")" = True ] || fail "not so: $2: $(cat "$1")"; }
