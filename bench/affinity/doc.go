// Package affinity keeps threads on some of the machine's processors. A process that a thread starts stays on
// the processors of that thread. The package works on Linux only.
package affinity
