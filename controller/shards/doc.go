// Package shards shares keys among the replicas of a program. The membership is kept in Leases of an API
// server, one for each replica. The package has no other coordinator.
//
// # Slots
//
// A hash divides all keys into 256 slots: see [SlotOf]. Each living member has about as many slots as the
// others, by rendezvous hashing with bounded loads. A replica that joins or leaves moves its own share
// and few other slots.
//
// # No slot has two owners
//
// A member publishes the slots that it claims in its own Lease. It owns a slot when three things hold:
//
//   - Its claim is stored.
//   - It has listed the Leases after that. The API server answers such a list with everything that was stored
//     before the request.
//   - The list shows no claim of another living member.
//
// Let two members claim a slot at once. The member whose claim is stored later sees the other claim, and does
// not own the slot. The member whose identity sorts first keeps its claim, and the other one withdraws. Members
// need not agree on the membership. If their views differ, a slot waits longer for an owner, but never has
// two. A watch of the Leases shows when to claim and when to withdraw, and nothing depends on it otherwise.
//
// An owner that has to give a slot up lets its work in the slot end, and then withdraws the claim. Each slot
// is handed over by itself, so a slow reconcile delays its own slot alone. A write that was not answered delays its
// slot until it can no longer take effect: see [BeginWrite].
//
// # When a member fails
//
// A member stops its own work when it could not renew its Lease for RenewDeadline, measured from when it sent
// the last renewal that succeeded. [Member.Begin] then refuses work, the contexts of work in flight end, and
// [Allowed] fails for them.
//
// Other members ignore the claims of a Lease that has not changed for its duration. They measure that on
// their own monotonic clock, from when they saw the last change. The clocks of other machines do not matter.
// The list that confirms a claim also shows a Lease that was renewed and whose event has not come.
package shards
