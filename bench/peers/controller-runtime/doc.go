// Command controller-runtime is the operator of bench/contract.md, written with
// controller-runtime as its documentation and its maintainers recommend. It has three modes:
//
//   - without flags: the defaults of the library, including one reconcile at a time;
//   - with --tuned: the options that the documentation offers for speed and memory, see
//     tuned.go;
//   - with --equal: in addition, all that the public API allows of what Bellerophon does by itself.
//     The cache keeps only what a reconcile compares, new objects need not wait for the caches,
//     writes have several connections, and the program stays on one processor while that is enough.
//     equal.go and the package connections are what a user has to write for this. It also holds back
//     the first status of a new object as Bellerophon's operator does, see pace.go.
//
// All modes write children with controllerutil.CreateOrUpdate. It reads the cache, sets the
// owned fields, and writes only if a field changed. The write is a PUT with the resource
// version as a precondition, so no change of another client is lost. With --equal the cache
// does not hold whole children, so a repair begins with a read from the API server.
//
// Server-side apply is the alternative. It would have to be sent to find out that it changes
// nothing, or the comparison would have to be written by hand. It also cannot take back a field
// that it lost because the key of its list item changed. Metadata-only watches save memory, but
// would hide changes of fields that the operator has to undo.
package main
