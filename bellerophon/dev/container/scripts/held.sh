# Arguments: the root of all paths, the state directory, and the last line of a success.
# The order matters while a sync goes on: a sync replaces the manifest before it removes pending.
b_state=$1$2
{ IFS= read -r b_epoch <"$b_state/epoch"; } 2>/dev/null
printf '%s\n' "$b_epoch"
[ ! -e "$b_state/pending" ] || cat "$b_state/pending" || [ ! -e "$b_state/pending" ] || exit 90
if [ -e "$b_state/manifest" ]; then
	echo ./manifest
	cat "$b_state/manifest" || exit 90
else
	echo ./none
fi
printf '\n%s\n' "$3"
