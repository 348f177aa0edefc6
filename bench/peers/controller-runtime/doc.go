// Command controller-runtime is the operator of bench/contract.md, written with
// controller-runtime as its documentation and its maintainers recommend. It has two
// modes:
//
//   - as it comes: the defaults of the library, so also one reconcile at a time;
//   - with --tuned: what its documentation offers for speed and memory, see tuned.go.
//
// Both bring children to what is wanted by controllerutil.CreateOrUpdate, which reads the
// cache, sets the owned fields, and writes only if that changed something: a PUT on
// condition of the resource version, so that no change of others is lost.
//
// Server-side apply, the alternative, would have to be sent to know that it changes
// nothing, or be compared by hand; and it cannot take over a field that it lost with the
// key of its list item. Metadata-only watches, which save memory, would hide the changes
// of fields that have to be undone.
package main
