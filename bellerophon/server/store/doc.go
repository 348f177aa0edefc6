// Package store is the state machine of the Bellerophon software: keys with values in memory, each change
// with a revision. It knows nothing of replication. All members apply the same commands in the same order,
// so their stores are equal.
package store
