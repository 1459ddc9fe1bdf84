# A server in a folder of its own, known by the process number in DATADIR/pid. The server scripts read this file.

alive() { [ -s "$1/pid" ] && kill -0 "$(cat "$1/pid")" 2>/dev/null; }

# answers NAME DIR PID SECONDS COMMAND... : wait until the command succeeds; the last of DIR/NAME.log where it never does.
answers() {
    local name=$1 dir=$2 pid=$3 seconds=$4; shift 4
    for _ in $(seq $((seconds * 10))); do
        "$@" >/dev/null 2>&1 && return 0
        kill -0 "$pid" 2>/dev/null || { tail -20 "$dir/$name.log" >&2; return 1; }
        sleep 0.1
    done
    echo "$name did not answer within $seconds s; see $dir/$name.log" >&2; return 1
}

# stop DIR SECONDS : a clean shutdown, killed when it takes longer. STOP_SECONDS=0 ends a server at once, whose data nobody reads again.
stop() {
    local dir; dir=$(cd "$1" 2>/dev/null && pwd) || return 0
    alive "$dir" || return 0
    local pid; pid=$(cat "$dir/pid"); kill "$pid"
    for _ in $(seq $((${STOP_SECONDS:-$2} * 10))); do kill -0 "$pid" 2>/dev/null || return 0; sleep 0.1; done
    kill -9 "$pid" 2>/dev/null || return 0
    for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null || return 0; sleep 0.1; done
}
