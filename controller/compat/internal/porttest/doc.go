// Package porttest compares an operator that was written for controller-runtime on both runtimes. It runs the same load
// on the same real control plane, and compares the objects that result and the costs. Only tests use it.
package porttest
