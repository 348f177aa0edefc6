// Package probe reads from /proc the CPU time and the resident memory of a process and its
// descendants. It also describes the machine.
//
// The kernel counts CPU time in ticks of 10 ms, so differences have that resolution too.
package probe
