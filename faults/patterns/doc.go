// Package patterns has only tests. They put the operators of this repository through the faults of
// package faults, on a real API server:
//
//	go test -v -timeout 2h ./faults/patterns -args -operators=all -sample=0 -folder=/tmp/faults -limit=20m
//
// The lines that start with goal say what was measured. docs/faults.md explains them.
package patterns
