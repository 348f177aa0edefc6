// Package ideal is a client that marks what is physically possible. It has no framework, no cache
// and no comparison. For each BellerophonSimple it writes the three children at the same time
// over one HTTP/2 connection. When the servers are finished, it writes the status once. No
// operator can do with less. A second form also tells progress, as the contract asks of operators:
// if the servers are not finished after a second, it writes one status more.
//
// The client implements only section "Create" of bench/contract.md. It repairs nothing, follows
// no change and retries nothing.
package ideal
