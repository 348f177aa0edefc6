// Package examples tests the example programs in its folders on a real control plane. Each is a program of
// its own that a user may copy:
//
//   - smallest: an operator in less than 60 lines
//   - several: two controllers that share a manager, map functions and a label selector
//   - heroes: a custom resource with a status, a child and a finalizer
//   - files: a controller whose requests come from outside of the cluster
//   - webhooks: validation, defaults and conversion of a custom resource with two versions
//   - hooks, a module: scripts by the protocol of shell-operator
package examples
