// Package faults puts an operator through faults, on a real API server: the operator is killed at
// each write, sees an older state from each event on, and has its watches, writes, connections and
// credentials disturbed. The end state must be as without the fault.
//
//	subject := faults.Subject{
//		Name:     "mine",
//		Command:  func(kubeconfig string) *exec.Cmd { return exec.Command("./mine", "--kubeconfig", kubeconfig) },
//		Kinds:    []schema.GroupVersionResource{mine, deployments},
//		Workload: []faults.Step{{Name: "create", Do: create, Done: isReady}, {Name: "scale", Do: scale, Done: isScaled}},
//	}
//	report, err := faults.Kills(ctx, config, subject, faults.Options{Sample: 20})
//
// The operator is a process of its own, in any language. It reaches the API server through a proxy, with
// a kubeconfig file that this package writes. [Kills], [Stale] and [Streams] run one pattern of faults
// each. They first run the workload without a fault, three times: what differs between the first
// two runs is masked, and the third one must not differ from them.
//
// [Soak] runs the workload without a fault for a long time, and measures the operator's memory.
//
// # What is compared
//
// The end state is all fields of all objects of [Subject.Kinds] in the trial's namespace, without what is
// unique to a run: times, identifiers, versions, generations, and the namespace. An owner that does not
// exist is a difference, so that orphans are found; so is an object too many. Each effective write is
// also compared with what the operator has read: a write to an object that it has only seen in an older
// state is a violation, unless it is a server-side apply.
//
// # What the proxy changes
//
// Writes pass one after another. Watches and lists are JSON. The events of a watch over a WebSocket
// pass unchanged, so that their cases are not reached.
package faults
