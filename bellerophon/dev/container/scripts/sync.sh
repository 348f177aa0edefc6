# Arguments: the root of all paths, the state directory, the project's directory, the ID of the container, the epoch
# that the change is based on, the epoch after it, and the last line of a success.
# Stdin: one line a path, each after a letter, then a line with a dot, then a tar stream.
state=$1$2 project=$1$3
export EXTRACT_UNSAFE_SYMLINKS=1 # Some versions of busybox do not extract links to absolute paths otherwise.
unset TAR_OPTIONS
command -v tar >/dev/null 2>&1 || exit 91
mkdir -p "$state" "$project" && cd "$project" || exit 90

# owner sets b_owner to the line in the lock $1.
owner() {
	{ IFS= read -r b_owner <"$1/owner"; } 2>/dev/null || b_owner=
}

# held_by succeeds if the lock's owner with the ID $1, the process $2 and the start $3 lives, in the container $4.
held_by() {
	[ "$1" = "$4" ] && known "$2" "$3"
}

# lock takes the lock for the container $1. An owner that lives is a sync whose connection broke. It gets some time to
# end, and is killed then. So a lock never loses its owner while that can still change files.
lock() {
	look $$
	b_mine="$1 $$ $b_start"
	b_wait=50
	while :; do
		rm -rf "$state/lock.$$" && mkdir "$state/lock.$$" && printf '%s\n' "$b_mine" >"$state/lock.$$/owner" || exit 93
		mv -f "$state/lock.$$" "$state/lock" 2>/dev/null # It goes into an existing lock.
		owner "$state/lock"
		[ "$b_owner" != "$b_mine" ] || return 0
		rm -rf "$state/lock/lock.$$"
		if [ "$b_wait" -gt 0 ] && held_by $b_owner "$1"; then
			pause
			continue
		fi
		rm -rf "$state/stale.$$"
		mv -f "$state/lock" "$state/stale.$$" 2>/dev/null || continue
		owner "$state/stale.$$" # Another sync may have replaced the lock since.
		if held_by $b_owner "$1"; then
			set -- "$1" $b_owner
			signal KILL "$3"
			wait_for "$3" 50 || exit 90
			b_wait=50
		fi
		rm -rf "$state/stale.$$"
	done
}

lock "$4"
trap 'rm -rf "$state/lock"' EXIT
epoch=
{ IFS= read -r epoch <"$state/epoch"; } 2>/dev/null
[ "$epoch" = "$5" ] || exit 95

# behind_link succeeds if a directory of the path $1 is a symbolic link.
behind_link() {
	above=$1
	while :; do
		case $above in */*) above=${above%/*} ;; *) return 1 ;; esac
		[ ! -L "./$above" ] || return 0
	done
}

# free removes the files that an earlier sync may have left half. It is for a full disk: without space for its list, no
# sync could begin and remove them.
free() {
	[ -e "$state/pending" ] || return 0
	while IFS= read -r path; do
		behind_link "$path" || { [ -d "./$path" ] && [ ! -L "./$path" ]; } || rm -f -- "./$path"
	done <"$state/pending"
}

copy_pending() {
	[ ! -e "$state/pending" ] || cat "$state/pending" >"$state/pending.new"
}

# The first pass changes nothing in the project. What is in the way of files is removed later.
rm -f "$state/manifest.new" "$state/complete" "$state/pending.new"
copy_pending 2>/dev/null || { free; copy_pending; } || exit 93
end= wipe=
while IFS= read -r line; do
	path=./${line#?}
	case $line in
	[prsk]*) printf '%s\n' "${line#?}" >&3 || { free; exit 93; } ;;
	esac
	case $line in
	.) end=1 && break ;;
	w) wipe=1 ;;
	d*) if [ -L "$path" ] || { [ -e "$path" ] && [ ! -d "$path" ]; }; then printf '%s\n' "$path" >&4; fi ;;
	l*) if [ -L "$path" ]; then printf '%s\n' "$path" >&4; fi ;;
	r*) if [ -L "$path" ] || { [ -e "$path" ] && [ ! -d "$path" ]; }; then printf '%s\n' "$path" >&4; fi ;;
	[sk]*)
		if [ -d "$path" ] && [ ! -L "$path" ]; then printf '%s\n' "$path" >&4; fi
		case $line in k*) printf '%s\n' "$path" >&6 ;; esac
		;;
	e*) printf '%s\n' "$path" >&5 ;;
	esac || exit 93
done 3>>"$state/pending.new" 4>"$state/remove" 5>"$state/empty" 6>"$state/links" || exit 93
[ "$end" ] || exit 92

# Held reads the epoch first, so pending must be there before the epoch.
mv -f "$state/pending.new" "$state/pending" &&
	printf '%s\n' "$6" >"$state/epoch.new" && mv -f "$state/epoch.new" "$state/epoch" || exit 93

# each runs a command with the lines of stdin as arguments, some at a time.
each() {
	count=$#
	while IFS= read -r path; do
		set -- "$@" "$path"
		[ $# -ge 100 ] || continue
		run_batch "$@" || return 1
		set -- "$1" "$2" "$3"
	done
	[ $# -eq "$count" ] || run_batch "$@"
}
run_batch() { "$@"; }

if [ "$wipe" ]; then rm -rf -- ./* ./.[!.]* ./..?* "$state"/*.mark || exit 94; fi
each rm -rf -- <"$state/remove" || exit 94
each rmdir -- "$state/none" <"$state/empty" 2>/dev/null # Directories with results of builds stay.

tar -xompf - -C "${1:-/}" || {
	copy_pending 2>/dev/null || free # The next sync needs some space before it can remove anything.
	exit 96
}
[ -e "$state/complete" ] || exit 96
while IFS= read -r path; do
	[ -L "$path" ] || { printf 'cannot create the link %s\n' "$path" >&2 && exit 96; }
done <"$state/links"
mv -f "$state/manifest.new" "$state/manifest" && rm -f "$state/pending" && printf '%s\n' "$7"
