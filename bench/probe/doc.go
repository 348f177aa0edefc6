// Package probe measures processes of this machine from outside, from /proc: CPU time and
// resident memory of a process and all that it has started. It also says what the machine
// is.
//
// CPU time is counted by the kernel in ticks of 10 ms; so are the differences.
package probe
