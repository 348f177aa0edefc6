// Package member is one member of a replicated store. It runs hashicorp/raft over connections that
// begin as HTTP requests. Its log and its snapshots are on a volume. It serves nothing by itself: see
// package api.
//
// A member has an identity of its own for each volume. A member that lost its volume gets a new one, so that
// it cannot vote a second time in the name of the old one.
package member
