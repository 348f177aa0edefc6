// Package store compares the key-value store of Bellerophon with etcd: three members of each on loopback, with their
// logs on the same disk. Both sync each write to the disk before they answer, and both answer linearizable reads.
//
// Clients send one request after another. Each store has the client that its users have: HTTP here, and gRPC
// with etcd. In each turn both stores are measured, one after the other, in an order that alternates.
package store
