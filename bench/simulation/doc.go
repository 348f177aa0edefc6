// Package simulation runs replicas that share objects. It counts their requests and bytes, and measures their memory
// and their hand-overs, as the objects and the replicas grow.
//
// The command simulate of bench runs the test of this package, because virtual time (testing/synctest) exists only in
// tests.
//
// The replicas are managers of package controller, with their caches and with package controller/shards. A simulated
// run has a fake API server and virtual time. It needs neither a machine for each replica nor the time of a real
// run. A real run has the same replicas on a real API server.
//
// docs/simulation.md has the results, and what is modelled and what is not.
package simulation
