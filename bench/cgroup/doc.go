// Package cgroup starts processes in control groups with hard limits of CPU and memory. It needs Linux,
// and works with versions 1 and 2 of the kernel's interface, without systemd.
//
// The kernel enforces the limits: it holds back a process that needs more CPU, and kills a process that
// needs more memory. A process is in its group before its program starts, so that a runtime that reads
// its limits finds them.
package cgroup
