// Package edge measures the two ways in which an operator learns of changes: by events (edge-triggered, with watches)
// and by polling alone (level-triggered, with lists at an interval).
//
// The same operator runs in both ways on a local control plane. Each object has one ConfigMap. The operator compares
// it with what the object asks for, and writes only a difference. Before it writes, it waits for something outside of
// the cluster, so that workers are busy as in an operator that calls another service.
//
//   - With events, it is a controller of the library. Its latency depends on the workers that handle events.
//   - With polling, it lists both kinds at each interval, at resource version 0, and reconciles all objects with a
//     fixed number of workers. A list at version 0 comes from the API server's cache, which is the cheapest one. An
//     interval that ends during a pass begins no second one.
//
// A reaction is from the answer to a change until the ConfigMap is as it should be, as a watch of the harness shows it. Half
// of the changes are changes of objects, and half are drifts of ConfigMaps. Changes come at random times, independent
// of the reactions. An object whose last change is not repaired gets no further one.
//
// All requests of the operator pass through the recording proxy. Bytes are of the bodies, both ways. docs/edge.md has
// the results.
package edge
