#!/usr/bin/env bash
# Studies in PostgreSQL, on a server that the test starts: the tests of storage and of coordinators over it, the very tables of
# Optuna, a study that Optuna made there, and what is said when something is wrong. A password is found nowhere.
# ctest: asan_part=1 cost=60
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
. "$SOURCE_DIR/tests/fixtures/postgres_server.sh" || exit 1
trap 'end_server; rm -rf "$scratch"' EXIT
start_server
vectors=$SOURCE_DIR/tests/vectors/optuna_postgres

# ---- the tests of storage
export FT_TEST_POSTGRES="'$server_bin/psql' -X -q -h '$server_dir' -p $server_port -U ft -d postgres"
export FT_TEST_POSTGRES_URL="postgresql://ft@/%s?host=$server_dir&port=$server_port"
if [ -x "$BUILD_DIR/tests/hpo_test_storage" ]; then
    for of in storage storage_together; do
        "$BUILD_DIR/tests/hpo_test_$of" >storage.log 2>&1 || { cp storage.log err; fail "hpo/$of over PostgreSQL"; }
        grep -qE 'PASSED.* ([4-9]|[1-9][0-9]) test' storage.log || { cp storage.log err; fail "hpo/$of did not run"; }
    done
fi

# ---- a study that Optuna made, and its tables
database made >/dev/null
"$server_bin/psql" -X -q -v ON_ERROR_STOP=1 -h "$server_dir" -p "$server_port" -U ft -d made -f "$vectors/study.sql" >/dev/null 2>err ||
    fail "Optuna's study cannot be loaded"
made="postgresql://ft@/made?host=$server_dir&port=$server_port"
if [ -x "$BUILD_DIR/tests/hpo_test_storage" ]; then
    "$BUILD_DIR/tests/hpo_test_storage" dump "$made" >dump.txt 2>err || fail "what Optuna wrote is not read"
    diff dump.txt "$vectors/expect.txt" >err || fail "what Optuna wrote is read as something else"
fi
fresh=$(database fresh)
expect 0 "$FTENGINE" study create --study fresh --storage "$fresh" --direction maximize
for name in made fresh; do
    "$server_bin/pg_dump" -s -O -x -h "$server_dir" -p "$server_port" -U ft "$name" | grep -v '^--\|^$\|restrict' >"$name.sql"
done
diff made.sql fresh.sql >err || fail "the tables are not those of Optuna"
[ "$(wc -l <fresh.sql)" -gt 200 ] || fail "there are no tables to compare"
[ "$(query fresh 'SELECT version_num FROM alembic_version')" = v3.2.0.a ] || fail "another version of the tables"

# ---- from one kind of database to another, and back
expect 0 "$FTENGINE" study export --study two --storage "$made" --output two.db
expect 0 "$FTENGINE" study import two.db --study again --storage "$fresh"
expect 0 "$FTENGINE" study import two.db --study again --storage "journal:all.log"
for storage in "$made two" "$fresh again" "journal:all.log again"; do
    "$FTENGINE" study trials --study "${storage#* }" --storage "${storage% *}" --json 2>err | python3 -c '
import json, sys
print(json.dumps([{k: t[k] for k in t if k not in ("storage", "directory")} for t in json.load(sys.stdin)["trials"]], sort_keys=True))' >>moved.txt ||
        fail "the trials of $storage cannot be listed"
done
[ "$(sort -u moved.txt | wc -l)" = 1 ] || { cp moved.txt err; fail "a study changed on its way"; }
expect 0 "$FTENGINE" study delete again --yes --storage "$fresh"
[ "$(query fresh 'SELECT count(*) FROM trials')" = 0 ] || fail "a deleted study left trials"

# ---- ask and tell, and what is wrong
cat >space.json <<'JSON'
{"x": {"name": "FloatDistribution", "attributes": {"low": -5, "high": 5, "log": false, "step": null}}}
JSON
expect 0 "$FTENGINE" study ask --study fresh --storage "$fresh" --space space.json
expect 0 "$FTENGINE" study tell 0 1.5 --step 3 --study fresh --storage "$fresh"
expect 0 "$FTENGINE" study tell 0 2.5 --study fresh --storage "$fresh"
[ "$(query fresh "SELECT state, value, intermediate_value FROM trials JOIN trial_values USING (trial_id) JOIN trial_intermediate_values USING (trial_id)")" = "COMPLETE|2.5|1.5" ] ||
    fail "ask and tell: $(query fresh 'SELECT * FROM trials')"
secret="postgresql://ft:secret@127.0.0.1:$server_port/ft"
expect 0 "$FTENGINE" study create --study hidden --storage "$secret" --direction minimize
expect 0 "$FTENGINE" study list --storage "$secret" --json
grep -q "postgresql://ft@127.0.0.1:$server_port/ft" out || fail "the address is not shown"
expect 0 "$FTENGINE" config "study.storage=$secret"
cat out err >>said
expect 1 "$FTENGINE" study list --storage "postgresql://ft:wrong-secret@127.0.0.1:$server_port/ft"
one_error "password authentication failed"
says "hint: the password comes from"
cat out err >>said
expect 1 "$FTENGINE" study list --storage "postgresql://ft:sec@ret/x?y#z@127.0.0.1:$server_port/ft"
one_error "password authentication failed"
cat out err >>said
expect 1 "$FTENGINE" study list --storage "postgresql://ft@127.0.0.1:1/ft?password=secret"
one_error "onnection refused"
cat out err >>said
expect 1 "$FTENGINE" study list --storage "${server_url/@\/ft/@/nothing}"
one_error 'database "nothing" does not exist'
# A coordinator waits for a server that is not there, not for what another try will not change.
cat >none.ini <<INI
[model]
path = $here/model
[data]
train = $here/train.tsv
validation_split = 0.2
[space]
train.learning_rate = float(1e-4, 3e-2, log)
INI
for storage in "postgresql://ft:wrong-secret@127.0.0.1:$server_port/ft" "${server_url/@\/ft/@/nothing}" "$secret?sslmode=require"; do
    expect 1 "$FTENGINE" tune none.ini --trials 1 study.reconnect=1s --storage "$storage"
    one_error "cannot connect to the database: "
    ! grep 'paused: ' err || fail "a wrong address is waited for: $storage"
    cat out err >>said
done
expect 2 "$FTENGINE" study list --storage "$(database empty)"
one_error "it has no table version_info"
expect 2 "$FTENGINE" study list --storage "postgresql://ft@/ft?hots=x"
one_error "this is no address of a database"
expect 2 "$FTENGINE" study list --storage "mysql://ft:secret@host/ft"
one_error "mysql://...': studies are kept in SQLite files, in PostgreSQL and in journals"
cat out err >>said
query fresh "CREATE ROLE guest LOGIN" "GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest"
guest=${fresh/ft@/guest@}
expect 0 "$FTENGINE" study show --study fresh --storage "$guest"
expect 1 "$FTENGINE" study enqueue --study fresh --storage "$guest" --force x=1
one_error "the database does not allow this user that: permission denied for table"
expect 1 "$FTENGINE" study enqueue --study fresh --storage "$fresh&options=-cdefault_transaction_read_only%3Don" --force x=1
one_error "the study database is read-only"
query fresh "UPDATE alembic_version SET version_num = 'v2.6.0.a'"
expect 2 "$FTENGINE" study list --storage "$fresh"
one_error "its tables are of version 'v2.6.0.a'"

# ---- TLS, a service, a file of passwords
if command -v openssl >/dev/null; then
    for name in "$server_dir/data/server" "$server_dir/other"; do
        server_command openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -addext subjectAltName=DNS:localhost \
            -days 2 -keyout "$name.key" -out "$name.crt" || { cp "$server_dir/log" err; fail "openssl"; }
    done
    cp "$server_dir/data/server.crt" root.crt && cp "$server_dir/other.crt" other.crt
    sealed=$(database sealed) # taken over TLS alone
    printf 'hostnossl sealed all all reject\n' | cat - "$server_dir/data/pg_hba.conf" >hba && cat hba >"$server_dir/data/pg_hba.conf"
    query postgres "ALTER SYSTEM SET ssl = on" "SELECT pg_reload_conf()" >/dev/null
    for _ in $(seq 1200); do [ "$(query postgres 'SHOW ssl')" = on ] && break; sleep 0.05; done
    sealed="postgresql://ft:secret@localhost:$server_port/sealed?hostaddr=127.0.0.1"
    expect 0 "$FTENGINE" study create --study sealed --storage "$sealed&sslmode=verify-full&sslrootcert=$scratch/root.crt" --direction minimize
    expect 0 "$FTENGINE" study list --storage "$sealed&sslmode=require"
    expect 1 "$FTENGINE" study list --storage "$sealed&sslmode=disable"
    one_error "pg_hba.conf rejects connection"
    expect 1 "$FTENGINE" study list --storage "$sealed&sslmode=verify-full&sslrootcert=$scratch/other.crt"
    one_error "certificate verify failed"
    expect 1 "$FTENGINE" study list --storage "${sealed/localhost/elsewhere}&sslmode=verify-full&sslrootcert=$scratch/root.crt"
    one_error 'does not match host name "elsewhere"'
    cat out err >>said
else
    echo "left out: TLS, for there is no openssl here"
fi
printf '[mine]\nhost=127.0.0.1\nport=%s\ndbname=ft\nuser=ft\n' "$server_port" >services
printf '127.0.0.1:%s:ft:ft:secret\n' "$server_port" >passwords
chmod 600 passwords
export PGSERVICEFILE=$scratch/services PGPASSFILE=$scratch/passwords
expect 0 "$FTENGINE" study list --storage "postgresql:///?service=mine"
grep -q hidden out || fail "the service is another database"
expect 1 "$FTENGINE" study list --storage "postgresql:///?service=yours"
one_error 'definition of service "yours" not found'
chmod 644 passwords # which libpq does not read then
expect 1 "$FTENGINE" study list --storage "postgresql:///?service=mine"
one_error "no password supplied"
says "a file of mode 0600"
cat out err >>said
unset PGSERVICEFILE PGPASSFILE
rm passwords

# A server of another century, as far as it says.
cat >old.py <<'PYTHON'
import socket, struct
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(4); print(s.getsockname()[1], flush=True)
def message(kind, body): return kind + struct.pack("!I", len(body) + 4) + body
while True:
    c, _ = s.accept()
    while True:
        length, code = struct.unpack("!II", c.recv(8)); c.recv(length - 8) if length > 8 else None
        if code in (80877103, 80877104): c.sendall(b"N"); continue
        break
    parameters = [(b"server_version", b"9.4.26"), (b"client_encoding", b"UTF8"), (b"server_encoding", b"UTF8"), (b"integer_datetimes", b"on")]
    c.sendall(message(b"R", struct.pack("!I", 0)) + b"".join(message(b"S", k + b"\0" + v + b"\0") for k, v in parameters) + message(b"Z", b"I"))
    c.recv(1000)
PYTHON
python3 old.py >old.port &
old=$!
trap 'kill $old; end_server; rm -rf "$scratch"' EXIT
for _ in $(seq 2400); do [ -s old.port ] && break; sleep 0.05; done
expect 2 "$FTENGINE" study list --storage "postgresql://ft@127.0.0.1:$(cat old.port)/ft"
one_error "the server is PostgreSQL 9.4: version 10 or later is needed"

# ---- a study
cat >tiny.ini <<INI
[model]
path = $here/model
[data]
train = $here/train.tsv
validation = $here/validation.tsv
max_length = 24
[train]
max_steps = 20
batch_size = 8
[eval]
metric = accuracy
[study]
trials = 4
startup_trials = 3
[space]
train.learning_rate = float(1e-4, 3e-2, log)
train.lr_scheduler = choice(linear, cosine, constant)
INI
expect 0 "$FTENGINE" tune tiny.ini --storage "$secret"
mkdir elsewhere
(cd elsewhere && exec "$FTENGINE" tune ../tiny.ini --trials 8 --storage "$secret" >../other.out 2>../other.err </dev/null) &
other=$!
for _ in $(seq 2400); do [ -d elsewhere/studies/tiny ] && break; sleep 0.05; done
tr '\0' ' ' </proc/$other/cmdline >title
expect 0 "$FTENGINE" tune tiny.ini --trials 8 --storage "$secret"
wait $other || { cp other.err err; fail "the coordinator beside"; }
[ "$(query ft "SELECT count(*) FROM trials JOIN studies USING (study_id) WHERE study_name = 'tiny' AND state = 'COMPLETE'")" = 8 ] || fail "not 8 trials"
[ "$(query ft "SELECT string_agg(number::text, ',' ORDER BY trial_id) FROM trials JOIN studies USING (study_id) WHERE study_name = 'tiny'")" = 0,1,2,3,4,5,6,7 ] ||
    fail "numbers with gaps"
grep -q "^storage = postgresql://ft@127.0.0.1:$server_port/ft" studies/tiny/config.ini || fail "the study does not say where it is"
PGPASSWORD=secret expect 0 "$FTENGINE" tune studies/tiny/config.ini --trials 9
if grep -rn 'secret' said title studies elsewhere other.err other.out out err; then fail "a password is to be seen"; fi
grep -q 'postgresql://ft:xxxxxx@' title || { cp title err; fail "the title of a process"; }

# ---- how often a coordinator waits for the server, counted between them
python3 "$SOURCE_DIR/tests/hpo/storage/count_round_trips.py" "$server_dir/.s.PGSQL.$server_port" trips 3 >trips.port &
counter=$!
trap 'kill $old $counter; end_server; rm -rf "$scratch"' EXIT
for _ in $(seq 1200); do [ -s trips.port ] && break; sleep 0.05; done
counted="postgresql://ft@127.0.0.1:$(cat trips.port)/ft?sslmode=disable&gssencmode=disable"
trips() { # of one call
    local before=$now open
    expect 0 "$FTENGINE" tune tiny.ini --study counted --trials $1 --storage "$counted"
    for _ in $(seq 1200); do
        read -r now open <trips
        [ $open = 0 ] && break
        sleep 0.05
    done
    took=$((now - before))
}
now=0
trips 2
says "paused: cannot connect to the database: " # the server was starting up, first of all
trips 2 # nothing but opening and closing it
opening=$took
SECONDS=0
trips 12
reports=$(query ft "SELECT count(*) FROM trial_intermediate_values JOIN trials USING (trial_id) JOIN studies USING (study_id) WHERE study_name = 'counted' AND number >= 2")
[ "$(query ft "SELECT count(*) FROM trials JOIN studies USING (study_id) WHERE study_name = 'counted' AND state = 'COMPLETE'")" = 12 ] || fail "not 12 trials"
# A report and its verdict are one transaction with a look at all the others: two. Signs of life: two every 15 seconds.
most=$((opening + 10 * 6 + 2 * reports + 2 * (1 + SECONDS / 15)))
echo "round trips: $opening to open and close, $took for 10 trials with $reports reports besides, $most at most"
[ $took -le $most ] || fail "a trial costs more than 6 round trips: $took, at most $most"
[ $took -ge $((opening + 10 * 3)) ] || fail "only $took round trips: they are not counted"

# ---- coordinators (the server has been up for long enough that whoever is gone is gone)
if [ -x "$BUILD_DIR/tests/hpo_test_coordinators" ]; then
    FT_TEST_STORAGE=$(database shared) "$BUILD_DIR/tests/hpo_test_coordinators" >coordinators.log 2>&1 ||
        { cp coordinators.log err; fail "hpo/coordinators over PostgreSQL"; }
fi
exit 0
