#!/bin/sh
# The first process of a real node. It prepares the node's namespaces, writes "ready" to
# descriptor 3, and waits. When it ends, the kernel kills all other processes of the node
# and removes its mounts and its network.
#
# Arguments: the directory of the node's files, the node's address, and the range of Services.
set -eu
directory=$1 address=$2 services=$3

mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mount --bind "$directory/lib" /var/lib
mount --bind "$directory/log" /var/log

# kubelet wants these values, and would set them for the whole machine: they belong to no
# namespace. It finds them in files here.
value() {
	[ -e "/proc/sys/$1" ] || return 0
	file="/run/sysctl-$(basename "$1")"
	echo "$2" >"$file"
	mount --bind "$file" "/proc/sys/$1"
}
value vm/overcommit_memory 1
value vm/panic_on_oom 0
value kernel/panic 10
value kernel/panic_on_oops 1
value kernel/keys/root_maxkeys 1000000
value kernel/keys/root_maxbytes 25000000

ip link set lo up
ip address add "$address/32" dev lo
# kube-proxy's rules lead to Pods, but a process here first needs some route to a Service.
ip route add "$services" dev lo src "$address"
echo 1 >/proc/sys/net/ipv4/ip_forward # Of this network alone.

echo ready >&3
exec 3>&-
# A first process gets no signal without a handler.
trap 'exit 0' TERM
while :; do
	sleep 2147483647 &
	wait $! || :
done
