# shellcheck shell=bash
# Sourced by scripts that run commands in control groups of their own: v1, or v2 where the group that this runs in may have children.
# need_cgroups: ends the test as skipped, and says so, where none can be made (77).
# in_cgroup BYTES COMMAND...: the command's exit code; KILLED is how many processes the kernel killed there for want of memory.
cgroup_v1=/sys/fs/cgroup/memory$(awk -F: '$2 == "memory" {print $3}' /proc/self/cgroup)
cgroup_v2=/sys/fs/cgroup$(awk -F: '$2 == "" {print $3}' /proc/self/cgroup)
cgroup_count=0

make_cgroup() { # BYTES; sets cgroup_made
    cgroup_count=$((cgroup_count + 1))
    if [ -f "$cgroup_v1/memory.limit_in_bytes" ]; then
        cgroup_made=$cgroup_v1/ftengine-$$-$cgroup_count
        mkdir "$cgroup_made" 2>/dev/null && echo "$1" >"$cgroup_made/memory.limit_in_bytes" 2>/dev/null
    else
        cgroup_made=$cgroup_v2/ftengine-$$-$cgroup_count
        mkdir "$cgroup_made" 2>/dev/null && echo "$1" >"$cgroup_made/memory.max" 2>/dev/null && { echo 0 >"$cgroup_made/memory.swap.max"; } 2>/dev/null
    fi
}
remove_cgroup() { # DIRECTORY; what still runs there is ended, and a group is busy for a moment after its last process
    xargs -r kill -9 <"$1/cgroup.procs" 2>/dev/null
    for _ in 1 2 3 4 5 6 7 8 9 10; do rmdir "$1" 2>/dev/null && return; sleep 0.1; done
}
killed_in() { # DIRECTORY
    { grep -h '^oom_kill ' "$1/memory.oom_control" "$1/memory.events"; } 2>/dev/null | awk '{print $2}'
}
enter_cgroup() { sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$@"; } # DIRECTORY COMMAND...
need_cgroups() {
    if ! make_cgroup 100000000; then
        rmdir "$cgroup_made" 2>/dev/null
        echo "skipped: no control groups can be made here" >&2
        exit 77
    fi
    remove_cgroup "$cgroup_made"
}
in_cgroup() {
    local code group
    make_cgroup "$1" || return 99
    group=$cgroup_made
    shift
    enter_cgroup "$group" "$@"
    code=$?
    # shellcheck disable=SC2034  # for who sources this
    KILLED=$(killed_in "$group")
    remove_cgroup "$group"
    return $code
}
