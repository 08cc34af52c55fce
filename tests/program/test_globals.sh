#!/usr/bin/env bash
# What the libraries keep beyond a call belongs to a context (base/context.h) or to a value of the caller's, so that two users of
# the engine in one process do not meet. Every variable that can change, file-wide or static in a function, is on this list with
# its reason; a new one fails, and so does one that is gone. (Sanitizers add variables of their own.)
# ctest: sanitize=leave
command -v objdump >/dev/null || exit 77
cd "${BUILD_DIR:?is set by ctest}" || exit 1

allowed="
context.c.o      program  the context of threads that entered none
context.c.o      entered  a thread's own: which context it works in
status.c.o       current  a thread's own: the present error
values.c.o       work     a thread's own: what the chat template that it renders has cost so far
signals.c.o      served   a handler of signals has no argument; of the commands, no library installs one
signals.c.o      asked    when they came first, for that handler
atomic.c.o       next     a number for names that no other call of the process may get, atomic
ini.c.o          once     the parser's library has settings of the process: set once
ini.c.o          comments one of these settings, whose type is not const; nobody writes it
curl_library.c.o once     libcurl is loaded once a process
curl_library.c.o found    its functions; written under that once
duckdb_library.c.o once   DuckDB's library is loaded once a process
duckdb_library.c.o found  its functions; written under that once
heap.c.o         glibc_heap  the lock of the process's own heap, which glibc makes ready without one
pq_library.c.o   once     libpq is loaded once a process
pq_library.c.o   found    its functions; written under that once
"

# "member symbol" of all that is not constant: .data.rel.ro is, after loading.
found=$(objdump -t libft_*.a | awk -F'\t' '
    /^[^ ]+: +file format/ { split($0, part, ":"); member = part[1]; next }
    NF == 2 {
        count = split($1, left, " "); section = left[count]
        count = split($2, right, " "); name = right[count]
        if (right[1] ~ /^0+$/ || section ~ /^\.data\.rel\.ro/ || section !~ /^(\.(data|bss|tdata|tbss|ldata|lbss)|\*COM\*)/) next
        sub(/\.[0-9]+$/, "", name) # a static of a function
        print member, name
    }' | sort -u)
[ -n "$found" ] || { echo "FAILED: the search finds nothing, not even what is allowed" >&2; exit 1; }
listed=$(awk 'NF > 2 { print $1, $2 }' <<<"$allowed" | sort -u)
new=$(comm -23 <(echo "$found") <(echo "$listed"))
gone=$(comm -13 <(echo "$found") <(echo "$listed"))
[ -z "$new" ] || printf 'FAILED: a variable of the whole process (object, name):\n%s\n' "$new" >&2
[ -z "$gone" ] || printf 'FAILED: on the list, but not there:\n%s\n' "$gone" >&2
[ -z "$new$gone" ]
