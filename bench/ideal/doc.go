// Package ideal is a client that marks what is physically possible: without a framework,
// a cache or a comparison it writes for each BellerophonSimple its three children, at the
// same time and over one HTTP/2 connection, and then, when its servers are finished, its
// status, once. No operator can do with less.
//
// It does only what section "Create" of bench/contract.md says: it repairs nothing,
// follows no change and tries nothing again.
package ideal
