# Functions for sync.sh, run.sh and stop.sh. A variable of the environment stays exported when a script changes
# it, so the variables have a prefix that no environment uses.

# look sets b_state, b_group and b_start for the process $1, and fails if there is none.
look() {
	{ IFS= read -r b_stat <"/proc/$1/stat"; } 2>/dev/null || return 1
	set -- ${b_stat##*")"}
	b_state=$1 b_group=$3 b_start=${20}
}

# living succeeds if a process of the group $1 lives. Zombies do not count: PID 1 of a container may never reap them.
living() {
	for b_process in /proc/[0-9]*; do
		look "${b_process#/proc/}" && [ "$b_group" = "$1" ] || continue
		case $b_state in Z | X) ;; *) return 0 ;; esac
	done
	return 1
}

# known succeeds if the group $1 lives, and its leader has not begun at another time than $2.
known() {
	if look "$1" && [ "$b_start" != "$2" ]; then return 1; fi
	living "$1"
}

# pause takes 1 from b_wait for each tenth of a second. Some sleeps take whole seconds only.
pause() {
	if sleep 0.1 2>/dev/null; then b_wait=$((b_wait - 1)); else
		sleep 1
		b_wait=$((b_wait - 10))
	fi
}

# signal sends the signal $1 to the group $2, or to its leader alone if the runtime has not made it a leader.
signal() {
	kill "-$1" "-$2" 2>/dev/null || kill "-$1" "$2" 2>/dev/null
}

# wait_for waits until the group $1 is gone, for at most $2 tenths of a second.
wait_for() {
	b_wait=$2
	while living "$1"; do
		[ "$b_wait" -gt 0 ] || return 1
		pause
	done
}

# finish ends the group $1.
finish() {
	signal TERM "$1"
	wait_for "$1" 40 && return
	signal KILL "$1"
	wait_for "$1" 20
}
