# Arguments: the state directory, the slot, the ID of the container, the mark, and the token of this run.
# Stdin: a program that ends with the token.
b_program=$(cat)
case $b_program in *": $5") ;; *) echo "the command did not arrive as a whole" >&2 && exit 97 ;; esac
mkdir -p "$1" || exit 97
if { read -r b_id b_pid b_begin b_token <"$1/$2.pid"; } 2>/dev/null && [ "$b_id" = "$3" ] && known "$b_pid" "$b_begin"; then
	finish "$b_pid" || { echo "the earlier command of the slot does not end" >&2 && exit 97; }
fi
look $$
rm -f "$1/$2.mark" && printf '%s %s %s %s\n' "$3" $$ "$b_start" "$5" >"$1/$2.pid.new" && mv -f "$1/$2.pid.new" "$1/$2.pid" || exit 97
# stop.sh writes the token before it reads the process, so one of both scripts sees the other.
if { IFS= read -r b_token <"$1/$2.stop"; } 2>/dev/null && [ "$b_token" = "$5" ]; then echo "the command was stopped" >&2 && exit 97; fi
# files prints the epoch of the files, or nothing while a sync changes them.
files() { [ -e "$1/pending" ] || cat "$1/epoch" 2>/dev/null || echo none; }
b_files=$(files "$1")
# The shell stays until its command has ended. Children do not inherit a trap that has an action.
trap : TERM
sh -c "$b_program" </dev/null 2>&1
b_exit=$?
# A command during which files changed has had some of each state. Its result is that of neither, so it gets no mark.
if [ "$b_exit" -eq 0 ] && [ "$4" ] && [ "$b_files" ] && [ "$b_files" = "$(files "$1")" ]; then
	printf '%s' "$4" >"$1/$2.mark.new" && mv -f "$1/$2.mark.new" "$1/$2.mark" || exit 97
fi
printf '\n%s\n' "$5" >&2
exit "$b_exit"
