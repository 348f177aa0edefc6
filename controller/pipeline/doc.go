// Package pipeline assembles the stages that an event passes through, in one function: [New]. The
// picture is in ARCHITECTURE.md. The requests of [Pipeline.Enqueue], and of rules that are called again,
// enter at trigger.
//
// The manager, the models in its tests and the benchmarks run the same pipeline. Each stage is a
// function in a file of its own and an entry in one list. Metrics, [Pipeline.Busy] and
// [Pipeline.Pending] read that list. To add a stage, write its file and call it in [New].
//
// # Goroutines
//
// The debounce has one goroutine, and Reconcile has one for its intake and one for each worker. The
// cache and trigger only compute: they run in the goroutine of the intake when it unpacks an item. A
// stage of the user has one goroutine, or starts its own: see [streams.MapOnReceive] and
// docs/decisions.md.
//
// # What the pipeline holds
//
// Each stage reports what it holds. The pipeline asks the stages in the order in which items pass
// them. At each hand-over the receiver counts an item before its sender stops counting it. So an item
// that is inside when the first stage is asked is always found.
package pipeline
