#!/usr/bin/env bash
# ftengine pull over https, against hub_server.py with certificates made here: an authority that the environment names is
# believed, any other is not, nor a certificate for another host or one that has expired; and a redirect from https to http is
# not followed, with or without a token.
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
command -v openssl >/dev/null || { echo "skipped: no openssl to make certificates with"; exit 77; }
unset HF_TOKEN HUGGING_FACE_HUB_TOKEN HF_TOKEN_PATH HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_HUB_OFFLINE TRANSFORMERS_OFFLINE \
    HF_HUB_DISABLE_IMPLICIT_TOKEN http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy \
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE

# ---- certificates ---------------------------------------------------------------------------------------------------
quietly() { "$@" >made 2>&1 || { cat made; fail "$*"; }; }
key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
authority() { # authority NAME: NAME.pem, NAME.key
    quietly openssl req -x509 "${key[@]}" -keyout "$1.key" -out "$1.pem" -days 2 -subj "/CN=$1 of a test" \
        -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign
}
# certificate NAME SUBJECT_ALTERNATIVE_NAME [OPTION...]: NAME.pem, NAME.key, signed by `ours`
certificate() {
    local name=$1 host=$2
    shift 2
    quietly openssl req -new "${key[@]}" -keyout "$name.key" -out "$name.csr" -subj "/CN=hub"
    printf 'subjectAltName=%s\nbasicConstraints=CA:FALSE\n' "$host" >"$name.ext"
    quietly openssl x509 -req -in "$name.csr" -CA ours.pem -CAkey ours.key -CAcreateserial -out "$name.pem" -extfile "$name.ext" "$@"
}
authority ours
authority theirs
certificate good IP:127.0.0.1 -days 2
certificate elsewhere DNS:hub.example -days 2
mkdir newcerts && touch index.txt && echo 01 >serial # `openssl x509` of 3.0 cannot make one that is over
printf '[ca]\ndefault_ca=c\n[c]\ndatabase=index.txt\nnew_certs_dir=newcerts\nserial=serial\ndefault_md=sha256\npolicy=p\nx509_extensions=e\n[p]\ncommonName=supplied\n[e]\nsubjectAltName=IP:127.0.0.1\n' >ca.cnf
quietly openssl req -new "${key[@]}" -keyout expired.key -out expired.csr -subj "/CN=hub"
quietly openssl ca -batch -config ca.cnf -in expired.csr -cert ours.pem -keyfile ours.key -out expired.pem -startdate 20200101000000Z \
    -enddate 20200201000000Z -notext
mkdir directory && cp ours.pem "directory/$(openssl x509 -in ours.pem -noout -hash).0"

# ---- the server -----------------------------------------------------------------------------------------------------
mkdir -p hub/org/small/main
cp "$here"/model/* hub/org/small/main
python3 "$SOURCE_DIR/tests/hub/hub_server.py" hub ports good.pem good.key >server.log 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$scratch"' EXIT
for _ in $(seq 2400); do [ -s ports ] && break; sleep 0.05; done
[ -s ports ] || { cat server.log >&2; fail "the server did not start"; }
read -r hub storage control <ports
export HF_ENDPOINT=https://127.0.0.1:$hub HF_HOME=$scratch/home
ask() { # ask METHOD PATH BODY
    exec 3<>"/dev/tcp/127.0.0.1/$control" || fail "the server is gone"
    printf '%s /control/%s HTTP/1.1\r\nHost: hub\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s' "$1" "$2" "${#3}" "$3" >&3
    sed '1,/^\r$/d' <&3
    exec 3>&-
}
present() { ask PUT certificate "{\"certificate\": \"$1.pem\", \"key\": \"$1.key\"}" >/dev/null; }
fresh() { rm -rf home && ask GET log "" >log; }
fetched() {
    expect 0 "$FTENGINE" pull org/small
    for f in config.json vocab.txt model.safetensors; do cmp "$(cat out)/$f" "hub/org/small/main/$f" || fail "$f differs"; done
}
refused() { # refused TEXT: and nothing was asked or fetched
    expect 1 "$FTENGINE" pull org/small
    one_error "the certificate of 127.0.0.1 is not accepted: "
    # OpenSSL's words, or those of libcurl with GnuTLS, which says one thing of all of them
    grep '^ftengine: error: ' err | grep -qiE -- "$1|server certificate verification failed" || fail "the error does not say why"
    [ ! -e home/hub/models--org--small/refs/main ] || fail "a failed pull was noted"
    ask GET log "" >log
    [ ! -s log ] || fail "something was asked: $(cat log)"
}

# ---- whom to believe ------------------------------------------------------------------------------------------------
fresh
refused "issuer certificate"
says "hint: behind a proxy with certificates of its own, SSL_CERT_FILE"
for variable in SSL_CERT_FILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE; do
    fresh
    (export $variable=$scratch/ours.pem && fetched) || exit 1
done
for variable in SSL_CERT_DIR REQUESTS_CA_BUNDLE; do
    fresh
    (export $variable=$scratch/directory && fetched) || exit 1
done
fresh
(export SSL_CERT_FILE=ours.pem CURL_CA_BUNDLE=theirs.pem && fetched) || exit 1 # the former decides
fresh
(export SSL_CERT_FILE=theirs.pem && refused "issuer certificate|self.signed" && says "it was checked against SSL_CERT_FILE=theirs.pem") || exit 1
fresh
(export REQUESTS_CA_BUNDLE='' && refused "issuer certificate") || exit 1 # as programs before 2022 took for "check nothing"
SSL_CERT_FILE=absent.pem expect 2 "$FTENGINE" pull org/small
one_error "names certificates that are not there: absent.pem" && says SSL_CERT_FILE
CURL_CA_BUNDLE=absent expect 2 "$FTENGINE" pull org/small
one_error "names certificates that are not there: absent" && says CURL_CA_BUNDLE
echo "no certificate" >empty.pem
SSL_CERT_FILE=empty.pem expect 1 "$FTENGINE" pull org/small
one_error "is not accepted" && says "it was checked against SSL_CERT_FILE=empty.pem"

# ---- which certificates -----------------------------------------------------------------------------------------------
export SSL_CERT_FILE=$scratch/ours.pem
present elsewhere
fresh
refused "127.0.0.1'"
present expired
fresh
refused "expired"
present good

# ---- never down to http ----------------------------------------------------------------------------------------------------
export HF_TOKEN=hf_ThisIsASecret
for what in revision config.json model.safetensors; do
    fresh
    ask PUT faults "[{\"path\": \"$what\", \"do\": \"redirect\", \"to\": \"http://127.0.0.1:{control}{path}\", \"times\": 9}]" >/dev/null
    expect 1 "$FTENGINE" pull org/small
    one_error "a redirect to 127.0.0.1 leaves https, which is not followed"
    ask GET log "" >log
    grep -q '"server": "hub".*Bearer hf_ThisIsASecret' log || fail "the hub did not get the token"
    grep -q '"server": "control"' log && fail "http was asked after https: $(cat log)"
    grep -q "$HF_TOKEN" err && fail "the token is in a message"
done
ask PUT faults '[]' >/dev/null
# What is at another port of the same host gets no token over https either.
fresh
fetched
ask GET log "" >log
grep '"server": "storage"' log | grep -q Bearer && fail "the storage got the token"
[ "$(grep -c '"server": "storage"' log)" = 1 ] || fail "the storage was not asked"
exit 0
