# Arguments: the state directory, the slot, and the last line of a success.
[ ! -e "$1/$2.mark" ] || cat "$1/$2.mark" || [ ! -e "$1/$2.mark" ] || exit 90
printf '\n%s\n' "$3"
