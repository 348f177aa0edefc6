// Package api serves a member over HTTP: keys, watches, membership, snapshots, health and metrics. Any member
// answers any request. A member that is not the leader forwards changes to it, and asks it how far it is
// before it answers a read. docs/server.md describes the requests.
package api
