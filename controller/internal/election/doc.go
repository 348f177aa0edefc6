// Package election elects one of several replicas of a program, by a Lease of Kubernetes. The Lease is the one
// of client-go's leader election, so both can compete for it.
//
// An [Elector] competes for the Lease. While it leads, there is an [Epoch]. Work that only the leader may do
// runs within the epoch, and a [Fence] refuses its writes once the epoch is over.
//
// All times are measured by the monotonic clock of this process, and the clock of no other machine matters:
//
//   - The leader counts from the moment before it sent a renewal. It starts no write later than RenewDeadline,
//     and each write ends within LeaseDuration.
//   - Another replica counts from the moment after it has received the renewal. It waits for LeaseDuration.
package election
