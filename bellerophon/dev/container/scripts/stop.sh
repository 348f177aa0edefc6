# Arguments: the state directory, the slot, the ID of the container, the token of the run that ends, and the last line
# of a success.
mkdir -p "$1" && printf '%s\n' "$4" >"$1/$2.stop.new" && mv -f "$1/$2.stop.new" "$1/$2.stop" || exit 90
if { read -r b_id b_pid b_begin b_token <"$1/$2.pid"; } 2>/dev/null &&
	[ "$b_id $b_token" = "$3 $4" ] && known "$b_pid" "$b_begin"; then
	finish "$b_pid" || exit 90
fi
printf '%s\n' "$5"
